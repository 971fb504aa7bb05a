// Selects and sorts items (items.h) with CUB. The sort keys in a slice are
// unique, so CUB's undefined treatment of equal keys does not matter.
//
// Tests: unit/cuda_*_test.cc and, on a device, those with the CTest label gpu.
#include <cub/device/device_batched_topk.cuh>
#include <cub/device/device_for.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_sort.cuh>
#include <cub/device/device_topk.cuh>
#include <cuda/iterator>

#include "core/backends/cuda/items.h"
#include "core/backends/cuda/tasks.h"

namespace topk::cuda {
namespace {

namespace execution = ::cuda::execution;

// Makes the enclosing function return the error if a call fails.
#define TOPK_CUDA_RETURN(call)              \
  do {                                      \
    const cudaError_t error = (call);       \
    if (error != cudaSuccess) return error; \
  } while (false)

// The stream and the memory pool that a task uses.
struct Place {
  cudaStream_t stream;
  cudaMemPool_t pool;
};

// Scratch memory. The destructor queues the release on the stream, so work that
// was queued earlier can still use the memory.
class Scratch {
 public:
  explicit Scratch(const Place& place) : place_(place) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (data_ != nullptr) cudaFreeAsync(data_, place_.stream);
  }
  cudaError_t Allocate(size_t bytes) {
    return cudaMallocFromPoolAsync(&data_, bytes > 0 ? bytes : 1, place_.pool,
                                   place_.stream);
  }
  void* data() const { return data_; }

 private:
  Place place_;
  void* data_ = nullptr;
};

template <class Types>
struct WriteOutputs {
  SelectTask task;
  __device__ void operator()(int64_t t) const { WriteOutput<Types>(task, t); }
};

// Runs a CUB algorithm with the scratch memory that it requests.
template <class Algorithm>
cudaError_t WithScratch(const Place& place, const Algorithm& algorithm) {
  size_t bytes = 0;
  TOPK_CUDA_RETURN(algorithm(nullptr, bytes));
  Scratch scratch(place);
  TOPK_CUDA_RETURN(scratch.Allocate(bytes));
  return algorithm(scratch.data(), bytes);
}

template <class Fn>
using Computed =
    ::cuda::transform_iterator<Fn, ::cuda::counting_iterator<int64_t>>;

template <class Fn>
__host__ __device__ Computed<Fn> Compute(Fn fn) {
  return Computed<Fn>(::cuda::counting_iterator<int64_t>(0), fn);
}

// Returns the sort key (if kSortKey) or the bits of item i of a slice.
template <class Types, bool kSortKey>
struct PartOfItem {
  ItemSource<Types> source;
  int64_t slice;
  __host__ __device__ auto operator()(int64_t i) const {
    if constexpr (kSortKey) {
      return source.SortKeyAt(slice, i);
    } else {
      return source.BitsAt(slice, i);
    }
  }
};

// Returns an iterator over the sort keys (if kSortKey) or the bits of a slice.
template <class Types, bool kSortKey>
struct EachSlice {
  ItemSource<Types> source;
  __host__ __device__ auto operator()(int64_t slice) const {
    return Compute(PartOfItem<Types, kSortKey>{source, slice});
  }
};

// Returns where a slice begins in an array of shape [slices, count].
template <class Begin>
struct SliceBegin {
  Begin first;
  int64_t count;
  __host__ __device__ Begin operator()(int64_t slice) const {
    return first + slice * count;
  }
};

// Writes the first `count` items of each slice to arrays.
template <class Types>
struct WriteItem {
  ItemSource<Types> source;
  ItemArrays to;
  int64_t count;
  __device__ void operator()(int64_t t) const {
    const Division at = Divide(t, count);
    static_cast<typename Types::SortKey*>(to.sort_keys)[t] =
        source.SortKeyAt(at.quotient, at.remainder);
    static_cast<typename Types::Bits*>(to.bits)[t] =
        source.BitsAt(at.quotient, at.remainder);
  }
};

template <class Types>
struct MakeByIndex {
  typename Types::SortKey* sort_keys;
  __device__ void operator()(int64_t i) const {
    sort_keys[i] = Types::ByIndex(sort_keys[i]);
  }
};

template <class Types>
class Selector {
 public:
  Selector(const SelectTask& task, const Place& place)
      : task_(task), source_{task}, place_(place) {}

  cudaError_t Run() {
    TOPK_CUDA_RETURN(Select());
    if (task_.values == nullptr && task_.indices == nullptr) return cudaSuccess;
    return cub::DeviceFor::Bulk(task_.kept_count(), WriteOutputs<Types>{task_},
                                place_.stream);
  }

 private:
  using SortKey = typename Types::SortKey;
  using Bits = typename Types::Bits;

  bool SortsByValue() const {
    return task_.method == Method::kSegmentedSort ||
           task_.method == Method::kRadixSort;
  }

  // Writes the best k items of each slice, arranged as the task requires.
  cudaError_t Select() {
    if (task_.arrangement == Arrangement::kAny) return Keep(task_.kept);
    if (task_.arrangement == Arrangement::kByValue && SortsByValue()) {
      return Keep(task_.kept);
    }
    Scratch memory(place_);
    ItemArrays chosen;
    TOPK_CUDA_RETURN(AllocateItems(task_.kept_count(), memory, chosen));
    TOPK_CUDA_RETURN(Keep(chosen));
    if (task_.arrangement == Arrangement::kByIndex) {
      TOPK_CUDA_RETURN(cub::DeviceFor::Bulk(
          task_.kept_count(),
          MakeByIndex<Types>{static_cast<SortKey*>(chosen.sort_keys)},
          place_.stream));
    }
    return Sort(task_.slices(), task_.k, chosen, task_.kept);
  }

  static cudaError_t AllocateItems(int64_t count, Scratch& memory,
                                   ItemArrays& items) {
    constexpr int kBytes = sizeof(Bits);
    TOPK_CUDA_RETURN(
        memory.Allocate(static_cast<size_t>(count * ItemBytes(kBytes))));
    items = ArraysIn(memory.data(), count, kBytes);
    return cudaSuccess;
  }

  // Writes the best k items of each slice. Their order depends on the method.
  cudaError_t Keep(const ItemArrays& to) {
    switch (task_.method) {
      case Method::kKeepAll:
        return Write(source_, to, task_.length());
      case Method::kBatchedTopK:
        return BatchedTopK(to);
      case Method::kTopK:
        return TopK(to);
      case Method::kSegmentedSort:
      case Method::kRadixSort:
        return SortAll(to);
    }
    return cudaErrorInvalidValue;
  }

  cudaError_t Write(const ItemSource<Types>& source, const ItemArrays& to,
                    int64_t count) {
    return cub::DeviceFor::Bulk(task_.slices() * count,
                                WriteItem<Types>{source, to, count},
                                place_.stream);
  }

  cudaError_t BatchedTopK(const ItemArrays& to) {
    using ::cuda::args::bounds;
    using ::cuda::args::immediate;
    const auto environment = ::cuda::std::execution::env{
        ::cuda::stream_ref{place_.stream},
        execution::require(execution::determinism::not_guaranteed,
                           execution::tie_break::unspecified,
                           execution::output_ordering::unsorted)};
    return WithScratch(place_, [&](void* scratch, size_t& bytes) {
      return cub::DeviceBatchedTopK::MaxPairs(
          scratch, bytes, Compute(EachSlice<Types, true>{source_}),
          Compute(SliceBegin<SortKey*>{static_cast<SortKey*>(to.sort_keys),
                                       task_.k}),
          Compute(EachSlice<Types, false>{source_}),
          Compute(SliceBegin<Bits*>{static_cast<Bits*>(to.bits), task_.k}),
          immediate{task_.length(), bounds<int64_t{1}, kMaxBatchedLength>()},
          immediate{task_.k, bounds<int64_t{1}, kMaxBatchedLength>()},
          task_.slices(), environment);
    });
  }

  // Passes lengths to CUB as 32-bit numbers for speed. A slice's length fits in
  // 32 bits: a chunk has about kChunkBytes bytes, and at most a quarter
  // of the slice's items come from earlier chunks (see ChooseMethod()).
  cudaError_t TopK(const ItemArrays& to) {
    const auto environment = ::cuda::std::execution::env{
        ::cuda::stream_ref{place_.stream},
        execution::require(execution::determinism::not_guaranteed,
                           execution::output_ordering::unsorted)};
    for (int64_t slice = 0; slice < task_.slices(); ++slice) {
      TOPK_CUDA_RETURN(WithScratch(place_, [&](void* scratch, size_t& bytes) {
        return cub::DeviceTopK::MaxPairs(
            scratch, bytes, Compute(PartOfItem<Types, true>{source_, slice}),
            static_cast<SortKey*>(to.sort_keys) + slice * task_.k,
            Compute(PartOfItem<Types, false>{source_, slice}),
            static_cast<Bits*>(to.bits) + slice * task_.k,
            static_cast<uint32_t>(task_.length()),
            static_cast<uint32_t>(task_.k), environment);
      }));
    }
    return cudaSuccess;
  }

  cudaError_t SortAll(const ItemArrays& to) {
    const int64_t items = task_.slices() * task_.length();
    Scratch memory(place_);
    Scratch sorted_memory(place_);
    ItemArrays all;
    ItemArrays sorted;
    TOPK_CUDA_RETURN(AllocateItems(items, memory, all));
    TOPK_CUDA_RETURN(AllocateItems(items, sorted_memory, sorted));
    TOPK_CUDA_RETURN(Write(source_, all, task_.length()));
    TOPK_CUDA_RETURN(Sort(task_.slices(), task_.length(), all, sorted));
    SelectTask first = task_;
    first.carried = sorted;
    first.carried_count = task_.length();
    return Write(ItemSource<Types>{first}, to, task_.k);
  }

  // Sorts each slice of [slices, count] in descending order.
  cudaError_t Sort(int64_t slices, int64_t count, const ItemArrays& from,
                   const ItemArrays& to) {
    const auto* sort_keys = static_cast<const SortKey*>(from.sort_keys);
    const auto* bits = static_cast<const Bits*>(from.bits);
    auto* const sorted_keys = static_cast<SortKey*>(to.sort_keys);
    auto* const sorted_bits = static_cast<Bits*>(to.bits);
    if (ChooseSort(slices, count) == Method::kSegmentedSort) {
      const auto begins = Compute(SliceBegin<int64_t>{0, count});
      return WithScratch(place_, [&](void* scratch, size_t& bytes) {
        return cub::DeviceSegmentedSort::SortPairsDescending(
            scratch, bytes, sort_keys, sorted_keys, bits, sorted_bits,
            slices * count, slices, begins, begins + 1, place_.stream);
      });
    }
    for (int64_t at = 0; at < slices * count; at += count) {
      TOPK_CUDA_RETURN(WithScratch(place_, [&](void* scratch, size_t& bytes) {
        return cub::DeviceRadixSort::SortPairsDescending(
            scratch, bytes, sort_keys + at, sorted_keys + at, bits + at,
            sorted_bits + at, count, 0, static_cast<int>(8 * sizeof(SortKey)),
            place_.stream);
      }));
    }
    return cudaSuccess;
  }

  const SelectTask& task_;
  const ItemSource<Types> source_;
  const Place place_;
};

}  // namespace

int LaunchSelect(const SelectTask& task, void* stream, void* pool) {
  const Place place{static_cast<cudaStream_t>(stream),
                    static_cast<cudaMemPool_t>(pool)};
  return task.rule.bytes <= 4 ? Selector<NarrowItems>(task, place).Run()
                              : Selector<WideItems>(task, place).Run();
}

}  // namespace topk::cuda
