// Selects and sorts with the kernels of filter.h and CUB's radix sort.
//
// Tests: unit/cuda_*_test.cc and, on a device, those with the CTest label gpu.
#include <algorithm>
#include <cub/device/device_for.cuh>
#include <cub/device/device_radix_sort.cuh>

#include "core/backends/cuda/elements.h"
#include "core/backends/cuda/filter.h"
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

// The blocks per multiprocessor for which the compiler limits registers. Some
// devices run fewer small blocks.
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

// Scratch memory. The destructor queues the release on the stream, so work that
// was queued earlier can still use the memory.
class Scratch {
 public:
  explicit Scratch(cudaStream_t stream) : stream_(stream) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (data_ != nullptr) cudaFreeAsync(data_, stream_);
  }
  cudaError_t Allocate(int64_t bytes) {
    return cudaMallocAsync(&data_, static_cast<size_t>(RoundUpToVectors(bytes)),
                           stream_);
  }
  void* data() const { return data_; }

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
};

template <class Element>
cudaError_t Select(SelectTask task, cudaStream_t stream);

// Selects with filter.h. If the slices have several parts, selects from each
// part, and then from the results.
template <class Element, bool kFloat>
cudaError_t FilterSlices(const SelectTask& task, cudaStream_t stream) {
  using InWarps = Filter<Element, kFloat, 32>;
  using InBlocks = Filter<Element, kFloat, 256>;
  const int64_t parts = PartsOf(task.slices(), task.positions, task.k);
  // More would need cudaFuncSetAttribute().
  static_assert(InBlocks::SharedBytes(MaxFilteredK(sizeof(Element))) <= 49152);
  const auto launch = [&](const auto& kernel) {
    return Launch(kernel, kernel.SharedBytes(task.k), stream);
  };
  if (parts == 1) {
    return task.positions <= InWarps::kShortSlice && task.k <= InWarps::kShortK
               ? launch(InWarps{{task}, 1})
               : launch(InBlocks{{task}, 1});
  }
  const int64_t count = task.slices() * parts * task.k;
  Scratch values(stream);
  Scratch indices(stream);
  TOPK_CUDA_RETURN(
      values.Allocate(count * static_cast<int64_t>(sizeof(Element))));
  TOPK_CUDA_RETURN(
      indices.Allocate(count * static_cast<int64_t>(sizeof(int64_t))));
  SelectTask first = task;
  first.values = values.data();
  first.indices = indices.data();
  first.index_bytes = sizeof(int64_t);
  first.by_index = true;
  TOPK_CUDA_RETURN(launch(InBlocks{{first}, parts}));
  SelectTask rest = task;
  rest.elements = values.data();
  rest.positions = parts * task.k;
  rest.element_indices = static_cast<const int64_t*>(indices.data());
  return Select<Element>(rest, stream);
}

template <class T>
cub::DoubleBuffer<T> Halves(const Scratch& memory, int64_t count) {
  auto* const data = static_cast<T*>(memory.data());
  return {data, data + count};
}

// Runs a CUB algorithm with the scratch memory that it requests.
template <class Algorithm>
cudaError_t WithScratch(cudaStream_t stream, const Algorithm& algorithm) {
  size_t bytes = 0;
  TOPK_CUDA_RETURN(algorithm(nullptr, bytes));
  Scratch scratch(stream);
  TOPK_CUDA_RETURN(scratch.Allocate(static_cast<int64_t>(bytes)));
  return algorithm(scratch.data(), bytes);
}

// Sorts all slices at once, by numbers: the slice, then the inverted key. A
// stable sort leaves equal numbers in the order of their positions.
template <class Element, class Number>
cudaError_t SortSlices(const SelectTask& task, cudaStream_t stream) {
  using Bits = BitsOf<Element>;
  const Elements<Element> elements{task};
  const int64_t length = task.positions;
  const int64_t k = task.k;
  const int64_t count = task.slices() * length;
  const int64_t outputs = task.slices() * k;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(SortKey<Bits>));
  Scratch number_memory(stream);
  Scratch position_memory(stream);
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
            static_cast<Bits>(~elements.KeyAt(at.quotient, at.remainder));
        if constexpr (sizeof(Number) > sizeof(Bits)) {
          number |= static_cast<Number>(at.quotient) << kHalf<Bits>;
        }
        number_to[i] = number;
        position_to[i] = static_cast<Bits>(at.remainder);
      },
      stream));
  // The lower bits of the inverted keys of narrow elements are equal. Those of
  // the slice are the highest.
  const int begin = kHalf<Bits> - static_cast<int>(8 * sizeof(Element));
  int end = kHalf<Bits>;
  for (int64_t last = task.slices() - 1; last > 0; last /= 2) ++end;
  TOPK_CUDA_RETURN(WithScratch(stream, [&](void* scratch, size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(scratch, bytes, numbers, positions,
                                           count, begin, end, stream);
  }));
  // Choose the first k positions of each slice.
  const Bits* const sorted = positions.Current();
  auto chosen = Halves<SortKey<Bits>>(number_memory, count);
  SortKey<Bits>* const chosen_to = chosen.Current();
  TOPK_CUDA_RETURN(cub::DeviceFor::Bulk(
      outputs,
      [=] __device__(int64_t i) {
        const Division at = Divide(i, k);
        chosen_to[i] =
            (static_cast<SortKey<Bits>>(at.quotient) << kHalf<Bits>) |
            sorted[at.quotient * length + at.remainder];
      },
      stream));
  if (task.by_index) {
    TOPK_CUDA_RETURN(WithScratch(stream, [&](void* scratch, size_t& bytes) {
      return cub::DeviceRadixSort::SortKeys(scratch, bytes, chosen, outputs, 0,
                                            end, stream);
    }));
  }
  const SortKey<Bits>* const ordered = chosen.Current();
  return cub::DeviceFor::Bulk(
      outputs,
      [=] __device__(int64_t i) {
        const Division at = Divide(i, k);
        const auto position = static_cast<Bits>(ordered[i]);
        elements.Write(at.quotient, static_cast<int64_t>(position),
                       at.remainder, k);
      },
      stream);
}

template <class Element>
cudaError_t Select(SelectTask task, cudaStream_t stream) {
  Scratch transposed(stream);
  if (task.inner > 1) {
    const int64_t count = task.slices() * task.positions;
    TOPK_CUDA_RETURN(
        transposed.Allocate(count * static_cast<int64_t>(sizeof(Element))));
    const Transpose<Element> transpose{
        static_cast<const Element*>(task.elements),
        static_cast<Element*>(transposed.data()), task.batches, task.positions,
        task.inner};
    TOPK_CUDA_RETURN(Launch(transpose, transpose.SharedBytes(), stream));
    task.elements = transposed.data();
  }
  if (task.k > MaxFilteredK(sizeof(Element))) {
    using Bits = BitsOf<Element>;
    return task.slices() == 1
               ? SortSlices<Element, Bits>(task, stream)
               : SortSlices<Element, SortKey<Bits>>(task, stream);
  }
  return task.rule.is_float ? FilterSlices<Element, true>(task, stream)
                            : FilterSlices<Element, false>(task, stream);
}

}  // namespace

cudaError_t LaunchSelect(const SelectTask& task, cudaStream_t stream) {
  switch (task.rule.bytes) {
    case 1:
      return Select<uint8_t>(task, stream);
    case 2:
      return Select<uint16_t>(task, stream);
    case 4:
      return Select<uint32_t>(task, stream);
    default:
      return Select<uint64_t>(task, stream);
  }
}

}  // namespace topk::cuda
