#include "client/cli/run_flags.h"

#include <string>
#include <tuple>
#include <vector>

#include "client/cli/command_tree.h"
#include "client/npy.h"
#include "core/base/dtype.h"

namespace topk::cli {

void AddRunFlags(CLI::App& command, RunFlags& flags) {
  command
      .add_option("file", flags.file,
                  "A .npy file, a .npz archive, or - for either on stdin")
      ->required()
      ->type_name(kFile);
  command.add_option("--member", flags.member,
                     "The array of a .npz archive to read, by NumPy's name for "
                     "it; not needed if it has only one");
  AddOperatorFlags(command, flags.operation);
  std::vector<std::string> types;
  for (const DTypeInfo& row : DTypes()) {
    if (!HasNpyName(row)) types.emplace_back(row.name);
  }
  command
      .add_option_function<std::string>(
          "--dtype",
          [&flags](const std::string& name) {
            flags.dtype = FindDType(name)->type;
          },
          "What the elements are if .npy has no type for it: bf16 in 2 bytes "
          "(V2, u2), the others in one (V1, u1), its lowest bits")
      ->check(CLI::IsMember(types));
  auto* local = command.add_flag("--local", flags.local,
                                 "Compute here, without a server");
  auto* compare = command
                      .add_flag("--compare", flags.compare,
                                "Compute here too, and print whether the "
                                "server's answer has the same bytes, not the "
                                "answer; if not, the first difference, and the "
                                "exit status is 6")
                      ->excludes(local);
  auto* stream = command
                     .add_option("--stream", flags.stream,
                                 "Whether to send the tensor in pieces; auto "
                                 "does above 512 KiB")
                     ->check(CLI::IsMember({"auto", "on", "off"}))
                     ->capture_default_str();
  command
      .add_flag("--shared-memory", flags.shared_memory,
                "Leave the tensor and take the answer in shared memory, of a "
                "server on this machine that allows it for names of /topk*")
      ->excludes(local)
      ->excludes(stream);
  auto* out = command
                  .add_option("--out", flags.out_directory,
                              "Write values.npy and indices.npy there (types "
                              "that .npy lacks as V1 or V2) instead of a table")
                  ->type_name(kFolder)
                  ->excludes(compare);
  auto* json =
      command.add_flag("--json", flags.json, "Print JSON instead of a table")
          ->excludes(out)
          ->excludes(compare);
  command
      .add_option("--max-slices", flags.max_slices,
                  "How many slices the table shows")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  for (const auto& [name, path, text] :
       {std::tuple("--labels", &flags.labels,
                   "A .npy file with a number for each position along the "
                   "axis, to show in the table for what was found"),
        std::tuple("--slice-labels", &flags.slice_labels,
                   "A .npy file with a number for each slice, to show beside "
                   "its name")}) {
    command.add_option(name, *path, text)
        ->type_name(kFile)
        ->excludes(out)
        ->excludes(json)
        ->excludes(compare);
  }
}

}  // namespace topk::cli
