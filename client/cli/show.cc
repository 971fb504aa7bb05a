#include "client/cli/show.h"

#include <filesystem>
#include <iostream>
#include <string>

#include "client/cli/number_flag.h"
#include "client/numpy/npy.h"
#include "client/numpy/npz.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

std::string BytesOf(const v1::Tensor& tensor) {
  return NpyBytes(
      static_cast<DType>(tensor.data_type()),
      {tensor.shape().data(), static_cast<size_t>(tensor.shape_size())},
      tensor.data());
}

Status WriteFiles(const std::string& out, const v1::TopKResponse& response) {
  if (out.ends_with(".npz")) {
    const NpyMember members[] = {{"values", BytesOf(response.values())},
                                 {"indices", BytesOf(response.indices())}};
    return WriteNpz(out, members);
  }
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) {
    return {Code::kNotFound, "FILE", "out",
            StrCat("cannot create the folder ", out, ": ", error.message())};
  }
  Status status =
      WriteFile(StrCat(out, "/", kValuesFile), BytesOf(response.values()));
  if (!status.ok()) return status;
  return WriteFile(StrCat(out, "/", kIndicesFile), BytesOf(response.indices()));
}

// Rejects names such as x.npy, because --out would create a folder x.npy.
std::string NoNpyFile(const std::string& path) {
  return path.ends_with(".npy") ? "must be a folder or a .npz file" : "";
}

}  // namespace

void AddShowFlags(CLI::App& command, ShowFlags& flags) {
  auto* out =
      command
          .add_option("--out", flags.out,
                      "Write values.npy and indices.npy to this folder, or "
                      "both arrays to this file if its name ends with .npz, "
                      "instead of printing a table. Types that .npy lacks "
                      "become NumPy's raw types V1 and V2")
          ->type_name("PATH")
          ->check(CLI::Validator(NoNpyFile, ""));
  command.add_flag("--json", flags.json, "Print JSON instead of a table")
      ->excludes(out);
  command
      .add_option("--max-slices", flags.max_slices,
                  "Max number of slices in the table")
      ->transform(Whole(0))
      ->capture_default_str();
}

ExitCode Show(const v1::TopKResponse& response, int axis,
              const ShowFlags& flags) {
  if (!flags.out.empty()) {
    const Status status = WriteFiles(flags.out, response);
    if (status.ok()) return kOk;
    std::cerr << "topk: " << status.message << "\n";
    return kFailed;
  }
  if (flags.json) {
    // Escape all but ASCII: the server's text may contain terminal control
    // characters.
    std::cout << ToJson(response).dump(-1, ' ', true) << "\n";
    return kOk;
  }
  PrintTable(response, axis, flags.max_slices, std::cout);
  return kOk;
}

}  // namespace topk::cli
