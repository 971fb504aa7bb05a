#include "client/cli/output.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "client/cli/number_flag.h"
#include "client/numpy/npy.h"
#include "core/base/dtype.h"
#include "core/base/number.h"
#include "core/base/packing.h"
#include "core/base/text.h"

namespace topk::cli {
namespace {

float FromFloatBits(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

float FromHalf(uint64_t bits) {
  const uint64_t magnitude = (bits & 0x7fff) << 13;
  const float value = magnitude < 0x0f800000  // not infinite or NaN
                          ? FromFloatBits(magnitude) * 0x1p112F
                          : FromFloatBits(magnitude | 0x7f800000);
  return bits >> 15 != 0 ? -value : value;
}

template <class T>
std::string TextOf(T value) {
  return std::isnan(value) ? "nan" : NumberText(value);
}

// Calls `fn` with element `i`, converted to a number type that represents it
// exactly.
template <class Fn>
auto WithNumber(const v1::Tensor& tensor, int64_t i, Fn fn) {
  const auto dtype = static_cast<DType>(tensor.data_type());
  const DTypeInfo& type = InfoOf(dtype);
  const uint64_t bits =
      ReadBits(type, std::as_bytes(std::span(tensor.data())).data(), i);
  if (dtype == DType::kF16) return fn(FromHalf(bits));
  if (dtype == DType::kBF16) return fn(FromFloatBits(bits << 16));
  if (dtype == DType::kF32) return fn(FromFloatBits(bits));
  if (dtype == DType::kF64) return fn(std::bit_cast<double>(bits));
  return type.sign != 0 ? fn(SignExtended(type, bits)) : fn(bits);
}

// Returns the number of elements of a tensor.
int64_t CountOf(const v1::Tensor& tensor) {
  int64_t count = 1;
  for (const int64_t size : tensor.shape()) count *= size;
  return count;
}

nlohmann::json JsonNumbers(const v1::Tensor& tensor) {
  nlohmann::json list = nlohmann::json::array();
  for (int64_t i = 0; i < CountOf(tensor); ++i) {
    list.push_back(WithNumber(tensor, i, [](auto value) -> nlohmann::json {
      if constexpr (std::is_floating_point_v<decltype(value)>) {
        if (!std::isfinite(value)) return TextOf(value);
      }
      return value;
    }));
  }
  return list;
}

// Returns a slice's coordinates, with a colon for the axis: "[3, :, 0]".
std::string SliceName(const v1::Tensor& tensor, int axis, int64_t slice) {
  std::string name = "]";
  for (int d = tensor.shape_size(); d-- > 0;) {
    const int64_t size = d == axis ? 1 : tensor.shape(d);
    name = StrCat(d > 0 ? ", " : "[",
                  d == axis ? ":" : std::to_string(slice % size), name);
    slice /= size;
  }
  return name;
}

// Writes a line per slice with the selected values and their indices, e.g.
// "[3, :]  0.98 @12  0.97 @40". If there are no slices or more than
// `max_slices`, a last line says so.
void PrintTable(const v1::TopKResponse& response, int axis, int64_t max_slices,
                std::ostream& out) {
  const v1::Tensor& values = response.values();
  const v1::Tensor& indices = response.indices();
  const int64_t k = values.shape(axis);
  int64_t inner = 1;
  for (int d = axis + 1; d < values.shape_size(); ++d) inner *= values.shape(d);
  const int64_t slices = k == 0 ? 0 : CountOf(values) / k;
  const int64_t shown = std::min(slices, max_slices);

  const auto name = [&](int64_t slice) {
    return SliceName(values, axis, slice);
  };
  size_t width = 0;
  for (int64_t slice = 0; slice < shown; ++slice) {
    width = std::max(width, name(slice).size());
  }
  for (int64_t slice = 0; slice < shown; ++slice) {
    out << std::left << std::setw(static_cast<int>(width)) << name(slice);
    for (int64_t j = 0; j < k; ++j) {
      const int64_t at = (slice / inner * k + j) * inner + slice % inner;
      out << "  " << ElementText(values, at) << " @"
          << ElementText(indices, at);
    }
    out << "\n";
  }
  if (slices == 0) {
    // An empty result is valid, but printing nothing would look like an error.
    out << "no slices: the input has no elements\n";
  }
  if (slices > shown) {
    out << "... and " << slices - shown
        << " more slices; raise --max-slices, or use --json or --out for all\n";
  }
}

// Returns {"shape", "values", "indices", ...} with flat row-major lists.
// Numbers that JSON cannot represent are the strings "nan", "inf" and "-inf".
nlohmann::json ToJson(const v1::TopKResponse& response) {
  nlohmann::json json;
  const v1::Tensor& any =
      response.has_values() ? response.values() : response.indices();
  json["shape"] = std::vector<int64_t>(any.shape().begin(), any.shape().end());
  const auto add = [&](const char* name, const v1::Tensor& tensor) {
    json[name] = JsonNumbers(tensor);
    json[StrCat(name, "_type")] =
        InfoOf(static_cast<DType>(tensor.data_type())).name;
  };
  if (response.has_values()) add("values", response.values());
  if (response.has_indices()) add("indices", response.indices());
  if (!response.request_id().empty()) {
    json["request_id"] = response.request_id();
  }
  if (response.has_execution()) {  // not after a merge
    const v1::ExecutionInfo& execution = response.execution();
    json["execution"] = {
        {"backend", execution.backend()},
        {"kernel", execution.kernel()},
        {"instruction_set", execution.instruction_set()},
        {"compute_nanoseconds", execution.compute_nanoseconds()}};
  }
  return json;
}

// Writes the outputs and the size to files in the folder `out`. Returns an
// error message, or "" on success.
std::string WriteFiles(const std::string& out, const v1::TopKResponse& response,
                       int64_t size) {
  v1::Tensor length;
  length.set_data_type(v1::DATA_TYPE_I64);
  length.set_data(&size, sizeof(size));
  std::error_code error;
  std::filesystem::create_directories(out, error);
  if (error) {
    return StrCat("cannot create the folder ", out, ": ", error.message());
  }
  for (const auto& [name, tensor] :
       {std::pair(kValuesFile, &response.values()),
        std::pair(kIndicesFile, &response.indices()),
        std::pair(kSizeFile, &std::as_const(length))}) {
    const std::string path = StrCat(out, "/", name);
    std::ofstream file(path, std::ios::binary);
    file << NpyHeader(*tensor) << tensor->data();
    file.close();
    if (!file) return StrCat("cannot write ", path, ": ", ErrnoText(errno));
  }
  return "";
}

// Rejects names such as x.npy, because --out would create a folder x.npy.
std::string NoFile(const std::string& path) {
  const bool is_file = path.ends_with(".npy") || path.ends_with(".npz");
  return is_file ? "must be a folder" : "";
}

}  // namespace

std::string ElementText(const v1::Tensor& tensor, int64_t i) {
  return WithNumber(tensor, i, [](auto value) { return TextOf(value); });
}

void AddShowFlags(CLI::App& command, ShowFlags& flags) {
  auto* out =
      command
          .add_option("--out", flags.out,
                      "Write values.npy, indices.npy and size.npy, the size of "
                      "the input along the axis, to this folder, instead of "
                      "printing a table")
          ->type_name("DIR")
          ->check(CLI::Validator(NoFile, ""));
  command.add_flag("--json", flags.json, "Print JSON instead of a table")
      ->excludes(out);
  command
      .add_option("--max-slices", flags.max_slices,
                  "Max number of slices in the table")
      ->transform(Whole(0))
      ->capture_default_str();
}

ExitCode Show(const v1::TopKResponse& response, int axis, int64_t size,
              const ShowFlags& flags) {
  if (!flags.out.empty()) {
    const std::string error = WriteFiles(flags.out, response, size);
    if (error.empty()) return kOk;
    std::cerr << "topk: " << EscapeControls(error) << "\n";
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
