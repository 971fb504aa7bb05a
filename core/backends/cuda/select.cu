// Selects and sorts with the kernels of filter.h and CUB's radix sort.
//
// Tests: unit/cuda_*_test.cc and, on a device, those with the CTest label gpu.
#include <algorithm>
#include <cub/device/device_for.cuh>
#include <cub/device/device_radix_sort.cuh>

#include "core/backends/cuda/filter.h"
#include "core/backends/cuda/items.h"
#include "core/backends/cuda/tasks.h"

// Makes the enclosing function return the error if a call fails.
#define TOPK_CUDA_RETURN(call)              \
  do {                                      \
    const cudaError_t error = (call);       \
    if (error != cudaSuccess) return error; \
  } while (false)

namespace topk::cuda {
namespace {

#ifdef __CUDACC__  // The tests define Launch() for the CPU.

// See filter.h.
template <int kThreads>
class DeviceBlock {
 public:
  template <class T>
  struct Local {
    __device__ __forceinline__ T& operator[](int) { return value; }
    T value;
  };

  __device__ explicit DeviceBlock(void* memory) : memory_(memory) {}

  template <class F>
  __device__ __forceinline__ void Each(const F& f) {
    f(static_cast<int>(threadIdx.x));
    Wait();
  }
  template <class F>
  __device__ __forceinline__ bool Any(const F& f) {
    const bool mine = f(static_cast<int>(threadIdx.x));
    if constexpr (kThreads > 32) return __syncthreads_or(mine ? 1 : 0) != 0;
    Wait();
    return __any_sync(~0U, mine ? 1 : 0) != 0;
  }
  template <class F>
  __device__ __forceinline__ auto Read(const F& f) {
    const auto value = f();
    Wait();
    return value;
  }
  __device__ void* memory() const { return memory_; }

  static __device__ uint32_t AtomicAdd(uint32_t* to, uint32_t value) {
    return atomicAdd(to, value);
  }
  static __device__ void AtomicMin(uint32_t* to, uint32_t value) {
    atomicMin(to, value);
  }
  static __device__ void AtomicMax(uint32_t* to, uint32_t value) {
    atomicMax(to, value);
  }
  static __device__ uint32_t CountOnes(uint32_t bits) { return __popc(bits); }
  static __device__ int LowestOne(uint32_t bits) { return __ffs(bits) - 1; }
  static __device__ int Width(uint32_t bits) { return 32 - __clz(bits); }

 private:
  static __device__ __forceinline__ void Wait() {
    if constexpr (kThreads > 32) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  }

  void* memory_;
};

// The blocks per multiprocessor that all devices can run.
template <class Kernel>
constexpr int kResident = Kernel::kThreads == 32 ? 24 : 1024 / Kernel::kThreads;

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, kResident<Kernel>)
    RunKernel(const Kernel kernel, int64_t jobs) {
  extern __shared__ uint4 memory[];
  DeviceBlock<Kernel::kThreads> block(memory);
  for (int64_t job = blockIdx.x; job < jobs; job += gridDim.x) {
    kernel.Run(block, job);
  }
}

// Launches a kernel of filter.h: a thread block for each job.
template <class Kernel>
cudaError_t Launch(const Kernel& kernel, size_t shared_bytes,
                   cudaStream_t stream) {
  constexpr int64_t kMaxBlocks = int64_t{1} << 30;
  const auto blocks =
      static_cast<unsigned>(std::min(kernel.jobs(), kMaxBlocks));
  RunKernel<<<blocks, Kernel::kThreads, shared_bytes, stream>>>(kernel,
                                                                kernel.jobs());
  return cudaGetLastError();
}

#endif

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
  cudaError_t Allocate(int64_t bytes) {
    return cudaMallocFromPoolAsync(&data_,
                                   static_cast<size_t>(RoundUpToVectors(bytes)),
                                   place_.pool, place_.stream);
  }
  void* data() const { return data_; }

 private:
  Place place_;
  void* data_ = nullptr;
};

// Selects with filter.h. If the slices have several parts, selects from the
// items that the parts kept.
template <class Element, bool kFloat>
cudaError_t FilterSlices(const SelectTask& task, const Place& place) {
  using Bits = BitsOf<Element>;
  using InWarps = Filter<Element, kFloat, 32>;
  using InBlocks = Filter<Element, kFloat, 256>;
  const int64_t parts = PartsOf(task.slices(), task.length(), task.k);
  // More would need cudaFuncSetAttribute().
  static_assert(InBlocks::SharedBytes(MaxFilteredK(sizeof(Element))) <= 49152);
  const auto launch = [&](const auto& kernel) {
    return Launch(kernel, kernel.SharedBytes(task.k), place.stream);
  };
  if (parts == 1) {
    const Items<Bits> items{task};
    return task.length() <= InWarps::kShortSlice && task.k <= InWarps::kShortK
               ? launch(InWarps{items, 1})
               : launch(InBlocks{items, 1});
  }
  const int64_t count = task.kept_count() * parts;
  Scratch memory(place);
  TOPK_CUDA_RETURN(memory.Allocate(count * ItemBytes(sizeof(Element))));
  SelectTask first = task;
  first.kept = ArraysIn(memory.data(), count, sizeof(Element));
  TOPK_CUDA_RETURN(launch(InBlocks{Items<Bits>{first}, parts}));
  SelectTask rest = task;
  rest.positions = 0;
  rest.carried = first.kept;
  rest.carried_count = parts * task.k;
  return FilterSlices<Element, kFloat>(rest, place);
}

template <class T>
cub::DoubleBuffer<T> Halves(const Scratch& memory, int64_t count) {
  auto* const data = static_cast<T*>(memory.data());
  return {data, data + count};
}

// Runs a CUB algorithm with the scratch memory that it requests.
template <class Algorithm>
cudaError_t WithScratch(const Place& place, const Algorithm& algorithm) {
  size_t bytes = 0;
  TOPK_CUDA_RETURN(algorithm(nullptr, bytes));
  Scratch scratch(place);
  TOPK_CUDA_RETURN(scratch.Allocate(static_cast<int64_t>(bytes)));
  return algorithm(scratch.data(), bytes);
}

// Writes k items of each slice. position(i, at) returns the position of output
// i, which is number at.remainder of slice at.quotient.
template <class Bits, class Position>
cudaError_t Write(const SelectTask& task, const Place& place,
                  const Position& position) {
  const Items<Bits> items{task};
  return cub::DeviceFor::Bulk(
      task.kept_count(),
      [=] __device__(int64_t i) {
        const Division at = Divide(i, items.task.k);
        items.Write(at.quotient, 1, 0, at.remainder, position(i, at));
      },
      place.stream);
}

// Sorts all slices at once, by numbers: the slice, then the inverted key. A
// stable sort leaves equal numbers in the order of their positions.
template <class Bits, class Number>
cudaError_t SortSlices(const SelectTask& task, const Place& place) {
  const Items<Bits> items{task};
  const int64_t length = task.length();
  const int64_t k = task.k;
  const int64_t count = task.slices() * length;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(SortKey<Bits>));
  Scratch number_memory(place);
  Scratch position_memory(place);
  TOPK_CUDA_RETURN(number_memory.Allocate(2 * count * kBytes));
  TOPK_CUDA_RETURN(position_memory.Allocate(2 * count * kBytes / 2));
  auto numbers = Halves<Number>(number_memory, count);
  auto positions = Halves<Bits>(position_memory, count);
  Number* const number_to = numbers.Current();
  Bits* const position_to = positions.Current();
  TOPK_CUDA_RETURN(cub::DeviceFor::Bulk(
      count,
      [=] __device__(int64_t i) {
        const Division at = Divide(i, length);
        Number number =
            static_cast<Bits>(~items.KeyAt(at.quotient, at.remainder));
        if constexpr (sizeof(Number) > sizeof(Bits)) {
          number |= static_cast<Number>(at.quotient) << kHalf<Bits>;
        }
        number_to[i] = number;
        position_to[i] = static_cast<Bits>(at.remainder);
      },
      place.stream));
  // The lower bits of the inverted keys of narrow elements are equal. Those of
  // the slice are the highest.
  const int begin = kHalf<Bits> - 8 * task.rule.bytes;
  int end = kHalf<Bits>;
  for (int64_t last = task.slices() - 1; last > 0; last /= 2) ++end;
  TOPK_CUDA_RETURN(WithScratch(place, [&](void* scratch, size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(scratch, bytes, numbers, positions,
                                           count, begin, end, place.stream);
  }));
  const Bits* const sorted = positions.Current();
  if (!task.writes_by_index()) {
    return Write<Bits>(task, place, [=] __device__(int64_t, Division at) {
      return static_cast<int64_t>(sorted[at.quotient * length + at.remainder]);
    });
  }
  // Sort the first k positions of each slice.
  auto chosen = Halves<SortKey<Bits>>(number_memory, count);
  SortKey<Bits>* const chosen_to = chosen.Current();
  TOPK_CUDA_RETURN(cub::DeviceFor::Bulk(
      task.kept_count(),
      [=] __device__(int64_t i) {
        const Division at = Divide(i, k);
        chosen_to[i] =
            (static_cast<SortKey<Bits>>(at.quotient) << kHalf<Bits>) |
            sorted[at.quotient * length + at.remainder];
      },
      place.stream));
  TOPK_CUDA_RETURN(WithScratch(place, [&](void* scratch, size_t& bytes) {
    return cub::DeviceRadixSort::SortKeys(
        scratch, bytes, chosen, task.kept_count(), 0, end, place.stream);
  }));
  const SortKey<Bits>* const ascending = chosen.Current();
  return Write<Bits>(task, place, [=] __device__(int64_t i, Division) {
    return static_cast<int64_t>(static_cast<Bits>(ascending[i]));
  });
}

template <class Bits>
cudaError_t Sort(const SelectTask& task, const Place& place) {
  if (task.writes_by_index() && task.k == task.length()) {
    return Write<Bits>(task, place, [] __device__(int64_t, Division at) {
      return at.remainder;
    });
  }
  return task.slices() == 1 ? SortSlices<Bits, Bits>(task, place)
                            : SortSlices<Bits, SortKey<Bits>>(task, place);
}

template <class Element>
cudaError_t Select(SelectTask task, const Place& place) {
  Scratch transposed(place);
  if (task.inner > 1 && task.positions > 0) {
    const int64_t elements = task.slices() * task.positions;
    TOPK_CUDA_RETURN(
        transposed.Allocate(elements * static_cast<int64_t>(sizeof(Element))));
    const Transpose<Element> transpose{
        static_cast<const Element*>(task.elements),
        static_cast<Element*>(transposed.data()), task.batches, task.positions,
        task.inner};
    TOPK_CUDA_RETURN(Launch(transpose, transpose.SharedBytes(), place.stream));
    task.elements = transposed.data();
  }
  if (task.k > MaxFilteredK(sizeof(Element))) {
    return Sort<BitsOf<Element>>(task, place);
  }
  return task.rule.is_float ? FilterSlices<Element, true>(task, place)
                            : FilterSlices<Element, false>(task, place);
}

}  // namespace

cudaError_t LaunchSelect(const SelectTask& task, cudaStream_t stream,
                         cudaMemPool_t pool) {
  const Place place{stream, pool};
  switch (task.rule.bytes) {
    case 1:
      return Select<uint8_t>(task, place);
    case 2:
      return Select<uint16_t>(task, place);
    case 4:
      return Select<uint32_t>(task, place);
    default:
      return Select<uint64_t>(task, place);
  }
}

}  // namespace topk::cuda
