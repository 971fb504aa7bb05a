// The memory limit of this process.
#pragma once

#include <cstdint>

namespace topk {

/// Returns the memory available to this process in bytes: the minimum of the
/// machine's memory and the limits of its cgroup and the parent cgroups,
/// divided by the number of instances that share this memory.
int64_t MemoryLimit(int instances = 1);

/// The smallest memory limit with which clients cannot exhaust the memory.
inline constexpr int64_t kLeastMemory = int64_t{128} << 20;

/// Below this memory limit, socket buffers are smaller and allocators keep less
/// free memory, so large tensors take longer.
inline constexpr int64_t kSmallMemory = int64_t{1} << 30;

/// The default limits on requests in flight and on gRPC's receive buffers: 25 %
/// and 60 % of `memory` after kReservedMemory is subtracted, but at least 12
/// and 16 MiB. Some bytes count towards both limits. The second limit is
/// higher, because the buffers also hold messages that are not admitted yet,
/// and because gRPC resets calls without an error message when the buffers are
/// full.
int64_t DefaultInflightBytes(int64_t memory);
int64_t DefaultReceiveMemory(int64_t memory);

/// Memory for code and threads, for freed memory that the allocators keep, and
/// for receive buffers beyond their limit: above the limit, gRPC continues to
/// read from all connections until it has ended enough calls. Measured: 40 to
/// 80 MiB with 64 connections that send messages of 60 MB.
inline constexpr int64_t kReservedMemory = int64_t{96} << 20;

/// Returns the size of a connection's send and receive buffers in the kernel,
/// which also count towards the cgroup's limit. 0 means the kernel's default,
/// several MiB.
int SocketBufferBytes(int64_t memory);

/// Returns the default limit on open calls: one per 512 KiB of `memory`,
/// clamped to [2, 4096]. An open call without a message uses 17 KiB, or 70 KiB
/// with many metadata fields. This memory does not count as bytes in flight.
int64_t DefaultMaxCalls(int64_t memory);

}  // namespace topk
