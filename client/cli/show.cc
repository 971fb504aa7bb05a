#include "client/cli/show.h"

#include <filesystem>
#include <iostream>
#include <vector>

#include "client/cli/number_flag.h"
#include "client/cli/terminal.h"
#include "client/numpy/npy.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

Status WriteTensor(const std::string& directory, const char* name,
                   const v1::Tensor& tensor) {
  const std::vector<int64_t> shape(tensor.shape().begin(),
                                   tensor.shape().end());
  return WriteNpy(StrCat(directory, "/", name),
                  static_cast<DType>(tensor.data_type()), shape, tensor.data());
}

ExitCode WriteFiles(const std::string& directory,
                    const v1::TopKResponse& response) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    std::cerr << "topk: cannot make " << directory << ": " << error.message()
              << "\n";
    return kFailed;
  }
  for (const Status& status :
       {WriteTensor(directory, kValuesFile, response.values()),
        WriteTensor(directory, kIndicesFile, response.indices())}) {
    if (!status.ok()) {
      std::cerr << "topk: " << status.message << "\n";
      return kFailed;
    }
  }
  return kOk;
}

}  // namespace

NoTableFlags AddShowFlags(CLI::App& command, ShowFlags& flags) {
  auto* out = command
                  .add_option("--out", flags.out_directory,
                              "Write values.npy and indices.npy there (types "
                              "that .npy lacks as V1 or V2) instead of a table")
                  ->type_name("DIR");
  auto* json =
      command.add_flag("--json", flags.json, "Print JSON instead of a table")
          ->excludes(out);
  command
      .add_option("--max-slices", flags.max_slices,
                  "Max number of slices in the table")
      ->transform(Whole(0))
      ->capture_default_str();
  return {out, json};
}

ExitCode Show(const v1::TopKResponse& response, int axis, const Labels& labels,
              const ShowFlags& flags) {
  if (!flags.out_directory.empty()) {
    return WriteFiles(flags.out_directory, response);
  }
  if (flags.json) {
    // ASCII only: the server's text may have characters that control terminals.
    std::cout << ToJson(response).dump(-1, ' ', true) << "\n";
    return kOk;
  }
  PrintTable(response, axis, labels, {flags.max_slices, TerminalColumns()},
             std::cout);
  return kOk;
}

}  // namespace topk::cli
