// The methods of topk.v1.TopKService.
#pragma once

#include <array>
#include <string_view>

namespace topk {

/// The methods, in the order of the .proto file.
enum class Method {
  kComputeTopK,
  kStreamTopK,
  kComputeTopKMany,
  kGetCapabilities,
};

/// The paths of the methods, as gRPC names them.
inline constexpr std::array<const char*, 4> kMethodPaths = {
    "/topk.v1.TopKService/ComputeTopK", "/topk.v1.TopKService/StreamTopK",
    "/topk.v1.TopKService/ComputeTopKMany",
    "/topk.v1.TopKService/GetCapabilities"};

/// Returns a method's path: "/package.Service/Method".
constexpr const char* PathOf(Method method) {
  return kMethodPaths[static_cast<size_t>(method)];
}

/// Returns the method name at the end of a method's path.
constexpr std::string_view NameOf(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace topk
