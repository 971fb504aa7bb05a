#include "core/whole_tensor.h"

#include <algorithm>

namespace topk {
void Append(std::span<const std::byte> piece, const Cancellation* cancellation,
            WholeTensor& tensor) {
  constexpr size_t kBlock = size_t{256} << 10;  // to new pages: 0.2 ms
  while (!piece.empty() && !IsCancelled(cancellation)) {
    const auto block = piece.first(std::min(piece.size(), kBlock));
    tensor.insert(tensor.end(), block.begin(), block.end());
    piece = piece.subspan(block.size());
  }
}

WholeTensor Concatenate(const Plan& plan,
                        std::span<const std::span<const std::byte>> pieces,
                        const Cancellation* cancellation) {
  WholeTensor whole;
  auto left = static_cast<size_t>(plan.input.bytes);
  whole.reserve(left);
  for (const auto& piece : pieces) {
    const size_t size = std::min(left, piece.size());
    Append(piece.first(size), cancellation, whole);
    left -= size;
  }
  return whole;
}

}  // namespace topk
