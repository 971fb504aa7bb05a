#include "core/backends/cuda/cuda_fold.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/backends/cuda/parts.h"

namespace topk::cuda {
namespace {

// Items on the device: [slices, count].
struct Items {
  std::unique_ptr<Memory> orders;
  std::unique_ptr<Memory> bits;
  int64_t count = 0;

  ItemArrays arrays() const {
    if (orders == nullptr) return {};
    return {orders->data(), bits->data()};
  }
};

// A buffer on the device, and the answers that end in it.
struct Piece {
  std::unique_ptr<Memory> elements;
  size_t filled = 0;
  std::unique_ptr<Memory> values;
  std::unique_ptr<Memory> indices;
  int64_t first_block = 0;
  int64_t blocks = 0;
};

class CudaFold final : public Fold {
 public:
  CudaFold(const Plan& plan, const Outputs& outputs, std::unique_ptr<Lane> lane,
           int64_t rows_per_piece, std::string_view architecture,
           const Cancellation* cancellation)
      : plan_(plan),
        outputs_(outputs),
        cancellation_(cancellation),
        rule_(
            RuleOf(InfoOf(plan.dtype), plan.direction == Direction::kLargest)),
        row_bytes_(static_cast<size_t>(plan.inner * rule_.bytes)),
        piece_bytes_(static_cast<size_t>(rows_per_piece) * row_bytes_),
        method_(MethodOf(plan, rows_per_piece)),
        architecture_(architecture),
        lane_(std::move(lane)) {}

  void Feed(std::span<const std::byte> piece) override {
    if (status_.ok()) status_ = Take(piece);
  }

  Execution Finish() override {
    if (status_.ok()) status_ = End();
    return {"cuda", NameOf(method_), architecture_, std::move(status_)};
  }

 private:
  Status Take(std::span<const std::byte> bytes) {
    while (!bytes.empty() && !IsCancelled(cancellation_)) {
      Piece& piece = pieces_[current_];
      if (piece.elements == nullptr) {
        if (Status s = Allocate(piece_bytes_, piece.elements); !s.ok()) {
          return s;
        }
      }
      const size_t size = std::min(bytes.size(), piece_bytes_ - piece.filled);
      if (Status s =
              lane_->Upload(bytes.first(size), *piece.elements, piece.filled);
          !s.ok()) {
        return s;
      }
      piece.filled += size;
      bytes = bytes.subspan(size);
      if (piece.filled == piece_bytes_) {
        if (Status s = SwapBuffers(); !s.ok()) return s;
      }
    }
    return {};
  }

  Status End() {
    if (IsCancelled(cancellation_)) return {};
    if (Status s = SwapBuffers(); !s.ok()) return s;
    return Collect(pieces_[current_ ^ 1]);  // the one that was just begun
  }

  // Begins the work on the current piece and turns to the other, whose answers
  // are taken first.
  Status SwapBuffers() {
    if (Status s = Work(pieces_[current_]); !s.ok()) return s;
    current_ ^= 1;
    return Collect(pieces_[current_]);
  }

  Status Work(Piece& piece) {
    const auto rows = static_cast<int64_t>(piece.filled / row_bytes_);
    const std::vector<Part> parts = CutRows(plan_, next_row_, next_row_ + rows);
    for (const Part& part : parts) {
      if (!part.Ends(plan_)) continue;
      if (piece.blocks == 0) piece.first_block = part.first_block;
      piece.blocks += part.blocks;
    }
    if (Status s = AllocateAnswers(piece); !s.ok()) return s;
    size_t at = 0;
    for (const Part& part : parts) {
      if (IsCancelled(cancellation_)) return {};
      if (Status s = Work(part, at, piece); !s.ok()) return s;
      at += static_cast<size_t>(part.blocks * part.rows) * row_bytes_;
    }
    next_row_ += rows;
    piece.filled = 0;
    return {};
  }

  Status Work(const Part& part, size_t at, Piece& piece) {
    SelectTask task;
    task.rule = rule_;
    task.elements = piece.elements->data() + at;
    task.blocks = part.blocks;
    task.rows = part.rows;
    task.inner = plan_.inner;
    task.first_row = part.first_row;
    if (part.first_row > 0) {
      task.carried = carried_.arrays();
      task.carried_count = carried_.count;
    }
    const bool ends = part.Ends(plan_);
    task.k = std::min(plan_.k, task.length());
    task.method = ChooseMethod(task.slices(), task.length(), task.k);
    if (ends) {
      task.arrangement = plan_.order == Order::kValue ? Arrangement::kByValue
                                                      : Arrangement::kByIndex;
    }
    Items kept;
    if (Status s = AllocateItems(task.slices(), task.k, kept); !s.ok()) {
      return s;
    }
    task.kept = kept.arrays();
    if (Status s = lane_->Select(
            task, {piece.elements.get(), carried_.orders.get(),
                   carried_.bits.get(), kept.orders.get(), kept.bits.get()});
        !s.ok()) {
      return s;
    }
    if (!ends) {
      carried_ = std::move(kept);
      return {};
    }
    carried_ = {};
    return Answer(part, task.arrangement, kept, piece);
  }

  Status Answer(const Part& part, Arrangement arrangement, const Items& items,
                Piece& piece) {
    EmitTask task;
    task.items = items.arrays();
    task.arrangement = arrangement;
    task.blocks = part.blocks;
    task.k = plan_.k;
    task.inner = plan_.inner;
    task.element_bytes = rule_.bytes;
    task.index_bytes = index_bytes();
    task.index_offset = plan_.index_offset;
    const int64_t before =
        (part.first_block - piece.first_block) * plan_.k * plan_.inner;
    if (piece.values != nullptr) {
      task.values = piece.values->data() + before * rule_.bytes;
    }
    if (piece.indices != nullptr) {
      task.indices = piece.indices->data() + before * index_bytes();
    }
    return lane_->Emit(task, {items.orders.get(), items.bits.get(),
                              piece.values.get(), piece.indices.get()});
  }

  // Brings the answers of a piece back.
  Status Collect(Piece& piece) {
    const int64_t block = plan_.k * plan_.inner;
    const auto collect = [&](std::unique_ptr<Memory>& from,
                             std::span<std::byte> to, int bytes) -> Status {
      const std::unique_ptr<Memory> memory = std::move(from);
      if (memory == nullptr || IsCancelled(cancellation_)) return {};
      return lane_->Download(
          *memory,
          to.subspan(static_cast<size_t>(piece.first_block * block * bytes),
                     static_cast<size_t>(piece.blocks * block * bytes)));
    };
    if (Status s = collect(piece.values, outputs_.values, rule_.bytes);
        !s.ok()) {
      return s;
    }
    if (Status s = collect(piece.indices, outputs_.indices, index_bytes());
        !s.ok()) {
      return s;
    }
    piece.blocks = 0;
    return {};
  }

  int index_bytes() const { return InfoOf(plan_.index_type).bytes; }

  Status Allocate(size_t bytes, std::unique_ptr<Memory>& memory) {
    Result<std::unique_ptr<Memory>> result = lane_->Allocate(bytes);
    if (!result.ok()) return result.status();
    memory = *std::move(result);
    return {};
  }

  Status AllocateItems(int64_t slices, int64_t count, Items& items) {
    const auto bytes = [&](int64_t each) {
      return static_cast<size_t>(slices * count * each);
    };
    items.count = count;
    if (Status s = Allocate(bytes(OrderBytes(rule_.bytes)), items.orders);
        !s.ok()) {
      return s;
    }
    return Allocate(bytes(BitsBytes(rule_.bytes)), items.bits);
  }

  Status AllocateAnswers(Piece& piece) {
    const int64_t count = piece.blocks * plan_.k * plan_.inner;
    if (count == 0) return {};
    if (plan_.wants_values) {
      if (Status s =
              Allocate(static_cast<size_t>(count * rule_.bytes), piece.values);
          !s.ok()) {
        return s;
      }
    }
    if (!plan_.wants_indices) return {};
    return Allocate(static_cast<size_t>(count * index_bytes()), piece.indices);
  }

  const Plan& plan_;
  const Outputs outputs_;
  const Cancellation* const cancellation_;
  const KeyRule rule_;
  const size_t row_bytes_;
  const size_t piece_bytes_;
  const Method method_;
  const std::string_view architecture_;
  // Outlives the memories below.
  const std::unique_ptr<Lane> lane_;
  std::array<Piece, 2> pieces_;
  int current_ = 0;
  // The items carried over within the block in progress.
  Items carried_;
  // Of all outer * n.
  int64_t next_row_ = 0;
  Status status_;
};

}  // namespace

std::unique_ptr<Fold> MakeFold(const Plan& plan, const Outputs& outputs,
                               std::unique_ptr<Lane> lane,
                               int64_t rows_per_piece,
                               std::string_view architecture,
                               const Cancellation* cancellation) {
  return std::make_unique<CudaFold>(plan, outputs, std::move(lane),
                                    rows_per_piece, architecture, cancellation);
}

}  // namespace topk::cuda
