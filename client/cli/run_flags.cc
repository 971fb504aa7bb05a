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
          "Element type, for types that .npy lacks. bf16 is read from 2-byte "
          "elements (V2 or u2 in NumPy), other types from the low bits of each "
          "byte (V1 or u1)")
      ->check(CLI::IsMember(types));
}

void AddRunFlags(CLI::App& command, RunFlags& flags) {
  command
      .add_option("file", flags.file,
                  "A .npy file, a .npz archive, or text with a row of numbers "
                  "per line, separated by commas or spaces; - is stdin")
      ->required()
      ->type_name("FILE");
  command.add_option("--member", flags.how.member,
                     "Name of the array to read from a .npz archive, without "
                     ".npy. Required if there are several arrays");
  AddOperatorFlags(command, flags.operation);
  CLI::Option* k = command.get_option("--k")->required(false);
  command
      .add_option(
          "--k-tensor", flags.k_tensor,
          "A .npy file with k, sent as the K tensor of ONNX or OpenVINO")
      ->type_name("FILE")
      ->excludes(k);
  command
      .add_option("--strides", flags.strides,
                  "DirectML: strides of the input in elements, e.g. 1,8")
      ->delimiter(',')
      ->transform(Whole())
      ->allow_extra_args(false);
  command.callback([&flags, k] {
    if (k->count() == 0 && flags.k_tensor.empty()) {
      throw CLI::RequiredError("--k");
    }
  });
  AddDtypeFlag(command, flags.how.dtype);
  command.add_flag("--header", flags.how.has_header,
                   "Skip the first line of text");
  auto* index_offset =
      command
          .add_option("--index-offset", flags.index_offset,
                      "Index of the file's first element, if the file is a "
                      "shard of a longer axis. Added to all indices; see topk "
                      "merge")
          ->transform(Whole(0));
  auto* local = command.add_flag("--local", flags.local,
                                 "Compute locally, without a server");
  auto* compare = command
                      .add_flag("--compare", flags.compare,
                                "Also compute locally, and print only whether "
                                "the server's result has the same bytes. If "
                                "not, print the first difference and exit "
                                "with 6")
                      ->excludes(local);
  auto* stream = command
                     .add_option("--stream", flags.stream,
                                 "Whether to send the tensor in chunks; auto "
                                 "does so if the tensor exceeds 512 KiB or the "
                                 "server's maximum message size")
                     ->check(CLI::IsMember({"auto", "on", "off"}))
                     ->capture_default_str();
  command
      .add_flag("--shared-memory", flags.shared_memory,
                "Pass the tensor and the result in shared memory. The server "
                "must run on this machine and allow shared memory with the "
                "prefix /topk")
      ->excludes(local)
      ->excludes(stream);
  command
      .add_flag_callback(
          "--trace",
          [&flags] {
            flags.traceparent =
                StrCat("00-", RandomHex(16), "-", RandomHex(8), "-01");
          },
          "Start a trace that the server continues, and print the trace ID on "
          "stderr")
      ->excludes(local);
  const auto no_table = AddShowFlags(command, flags.show);
  for (CLI::Option* option : no_table) option->excludes(compare);
  for (const auto& [name, path, text] :
       {std::tuple("--labels", &flags.labels,
                   "A .npy file with a numeric label for each position along "
                   "the axis. The table shows the labels of the selected "
                   "positions"),
        std::tuple("--slice-labels", &flags.slice_labels,
                   "A .npy file with a numeric label for each slice. The table "
                   "shows the label next to the slice's name")}) {
    CLI::Option* labels = command.add_option(name, *path, text)
                              ->type_name("FILE")
                              ->excludes(index_offset)
                              ->excludes(compare);
    for (CLI::Option* option : no_table) labels->excludes(option);
  }
}

}  // namespace topk::cli
