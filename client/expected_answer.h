// Checks responses before they are used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "topk/v1/topk.pb.h"

namespace topk {

/// Returns an INTERNAL error with the reason BAD_ANSWER, for a response that
/// cannot belong to its request. `field` is the response's field, or "".
Status BadAnswer(std::string_view field, std::string_view message);

/// The properties that a request implies for its response: the types, shapes
/// and sizes of the outputs, and the range of the indices. Does not check which
/// elements were selected. The server may be faulty or a different program, so
/// call Check() before using numbers in a response as memory offsets.
class ExpectedAnswer {
 public:
  /// Ignores the data of the tensor, which may be missing.
  explicit ExpectedAnswer(const v1::TopKRequest& request);

  /// Returns OK, or BAD_ANSWER with the name of the wrong field, its value and
  /// the expected value. If the server must reject the request, returns
  /// BAD_ANSWER for any response. Does not read indices in shared memory.
  Status Check(const v1::TopKResponse& response) const;

  /// Upper bound on the bytes of one response message.
  int64_t max_message_bytes() const;
  /// The size of each output in the response, in bytes. 0 for an output that
  /// was not requested or is in shared memory.
  int64_t value_bytes() const { return CarriedBytes(values_); }
  int64_t index_bytes() const { return CarriedBytes(indices_); }

 private:
  struct Output {
    bool wanted = false;
    DType dtype = DType::kF32;
    /// The strides in elements. Empty = packed.
    std::vector<int64_t> strides;
    int64_t bytes = 0;
    /// The shared-memory region for the output. If its name is empty, the
    /// output is returned in the response.
    v1::SharedMemoryRegion region;
  };

  static int64_t CarriedBytes(const Output& output);
  Status Understand(const v1::TopKRequest& request);
  Status Describe(const v1::TensorDesc* desc, Output& output) const;
  Status CheckOutput(std::string_view name, const Output& expected, bool sent,
                     const v1::Tensor& tensor) const;
  Status CheckRange(const v1::Tensor& indices) const;

  /// The reason why a server must reject the request, or OK.
  Status rejection_;
  std::string request_id_;
  /// The shape of the outputs: the input's shape with size k along the axis.
  std::vector<int64_t> shape_;
  Output values_;
  Output indices_;
  /// Every index is in begin_ .. begin_ + length_ - 1.
  int64_t begin_ = 0;
  int64_t length_ = 0;
};

}  // namespace topk
