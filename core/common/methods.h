// The methods of topk.v1.TopKService.
#pragma once

#include <string_view>

namespace topk {

/// The paths of the methods, as gRPC names them.
inline constexpr char kComputeTopK[] = "/topk.v1.TopKService/ComputeTopK";
inline constexpr char kStreamTopK[] = "/topk.v1.TopKService/StreamTopK";
inline constexpr char kComputeTopKMany[] =
    "/topk.v1.TopKService/ComputeTopKMany";
inline constexpr char kGetCapabilities[] =
    "/topk.v1.TopKService/GetCapabilities";

/// Returns the method name at the end of a method's path.
constexpr std::string_view NameOf(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace topk
