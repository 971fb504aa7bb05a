#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "client/cli/number_flag.h"
#include "client/cli/run.h"
#include "client/numpy/npy.h"
#include "core/base/dtype.h"
#include "core/base/text.h"

namespace topk::cli {

namespace {

std::string RandomHex(int bytes) {
  std::random_device random;
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text += HexOf(static_cast<unsigned char>(random()));
  }
  return text;
}

}  // namespace

void AddDtypeFlag(CLI::App& command, std::optional<DType>& dtype) {
  std::vector<std::string> types;
  for (const DTypeInfo& row : kDTypes) {
    if (!HasNpyName(row)) types.emplace_back(row.name);
  }
  command
      .add_option_function<std::string>(
          "--dtype",
          [&dtype](const std::string& name) { dtype = FindDType(name)->type; },
          "Element type that .npy cannot name: bf16 is read from elements of "
          "2 bytes (V2, u2), the others from the low bits of one byte (V1, u1)")
      ->check(CLI::IsMember(types));
}

void AddRunFlags(CLI::App& command, RunFlags& flags) {
  command
      .add_option("file", flags.file,
                  "A .npy file, a .npz archive, or lines of numbers (CSV or "
                  "JSON lists), as f64 or, if all are integers, i64; - is "
                  "stdin")
      ->required()
      ->type_name("FILE");
  command.add_option("--member", flags.member,
                     "The array of a .npz archive to read, by NumPy's name for "
                     "it; not needed if it has only one");
  AddOperatorFlags(command, flags.operation);
  CLI::Option* k = command.get_option("--k")->required(false);
  command
      .add_option(
          "--k-tensor", flags.k_tensor,
          "A .npy file with k, sent as the tensor that ONNX and OpenVINO "
          "have for it")
      ->type_name("FILE")
      ->excludes(k);
  command
      .add_option("--strides", flags.strides,
                  "DirectML: the file's strides in elements, e.g. 1,8")
      ->delimiter(',')
      ->transform(Whole())
      ->allow_extra_args(false);
  command.callback([&flags, k] {
    if (k->count() == 0 && flags.k_tensor.empty()) {
      throw CLI::RequiredError("--k");
    }
  });
  AddDtypeFlag(command, flags.dtype);
  auto* index_offset =
      command
          .add_option("--index-offset", flags.index_offset,
                      "Where the file begins, if it is a shard of a longer "
                      "axis: added to every index; see topk merge")
          ->transform(Whole(0));
  auto* local = command.add_flag("--local", flags.local,
                                 "Compute here, without a server");
  auto* compare = command
                      .add_flag("--compare", flags.compare,
                                "Compute locally too, and print whether the "
                                "server's result has the same bytes instead of "
                                "the result; if not, print the first "
                                "difference and exit with 6")
                      ->excludes(local);
  auto* stream = command
                     .add_option("--stream", flags.stream,
                                 "Whether to send the tensor in chunks; auto "
                                 "does above 512 KiB, or above the largest "
                                 "message that the server takes")
                     ->check(CLI::IsMember({"auto", "on", "off"}))
                     ->capture_default_str();
  command
      .add_flag("--shared-memory", flags.shared_memory,
                "Pass tensor and result in shared memory. The server must run "
                "on this machine and allow it for names of /topk*")
      ->excludes(local)
      ->excludes(stream);
  command
      .add_flag_callback(
          "--trace",
          [&flags] {
            flags.traceparent =
                StrCat("00-", RandomHex(16), "-", RandomHex(8), "-01");
          },
          "Start a trace that the server continues, and print its id on stderr")
      ->excludes(local);
  const auto no_table = AddShowFlags(command, flags.show);
  for (CLI::Option* option : no_table) option->excludes(compare);
  for (const auto& [name, path, text] :
       {std::tuple("--labels", &flags.labels,
                   "A .npy file with a number for each position along the "
                   "axis, to show in the table for what was found"),
        std::tuple("--slice-labels", &flags.slice_labels,
                   "A .npy file with a number for each slice, to show next to "
                   "its name")}) {
    CLI::Option* labels = command.add_option(name, *path, text)
                              ->type_name("FILE")
                              ->excludes(index_offset)
                              ->excludes(compare);
    for (CLI::Option* option : no_table) labels->excludes(option);
  }
}

}  // namespace topk::cli
