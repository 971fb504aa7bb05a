#include <random>
#include <string>
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
  command.add_option("--member", flags.read.member,
                     "Name of the array to read from a .npz archive, without "
                     ".npy. Required if there are several arrays");
  AddOperatorFlags(command, flags.operation);
  command
      .add_option("--strides", flags.strides,
                  "DirectML: strides of the input in elements, e.g. 1,8")
      ->delimiter(',')
      ->transform(Whole())
      ->allow_extra_args(false);
  AddDtypeFlag(command, flags.read.dtype);
  command.add_flag("--header", flags.read.has_header,
                   "Skip the first line of text");
  command
      .add_option("--index-offset", flags.index_offset,
                  "Index of the file's first element, if the file is a "
                  "shard of a longer axis. Added to all indices; see topk "
                  "merge")
      ->transform(Whole(0));
  auto* local = command.add_flag("--local", flags.local,
                                 "Compute locally, without a server");
  auto* stream = command
                     .add_option("--stream", flags.stream,
                                 "Whether to send the tensor in chunks; auto "
                                 "does so if the tensor exceeds 512 KiB or the "
                                 "server's maximum message size")
                     ->check(CLI::IsMember({"auto", "on", "off"}))
                     ->capture_default_str();
  command
      .add_flag("--shared-memory", flags.shared_memory,
                "Pass the tensor in shared memory. The server "
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
  AddShowFlags(command, flags.show);
}

}  // namespace topk::cli
