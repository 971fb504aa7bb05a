// What a stream has received and nobody has worked on yet.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace topk {

/// Keeps a stream's messages in order between the event that a message has
/// come and the work on it: one read under way at a time, one worker at a time,
/// so much ahead of it and no more. Thread-safe.
class Intake {
 public:
  /// The next read begins while fewer messages than this wait...
  static constexpr size_t kMostMessages = 256;
  /// ...and fewer bytes.
  static constexpr int64_t kMostBytes = int64_t{2} << 20;

  /// What to do now that a read has ended.
  struct Next {
    /// Begin the next read.
    bool read;
    /// Let a worker begin.
    bool work;
    /// How many bytes wait for it.
    int64_t bytes;
  };
  /// A read has ended: with a message, which is taken, or with the stream. The
  /// first read is the caller's to begin.
  Next Receive(bool ok, grpc::ByteBuffer& message);

  /// What a worker has got.
  struct Taken {
    /// Begin the next read.
    bool read;
    /// The stream has ended, and all of it was taken.
    bool end;
    /// Messages, or neither these nor the end: then the worker is done, and a
    /// later Receive asks for another.
    bool any;
    /// Of the messages.
    int64_t bytes;
    /// When the first of them came.
    std::chrono::steady_clock::time_point since;
  };
  /// Takes all that waits, in order.
  Taken Take(std::vector<grpc::ByteBuffer>& messages);

  /// Nothing is to be read or worked on any more.
  void Stop();

 private:
  bool BeginRead();

  std::mutex mutex_;
  std::vector<grpc::ByteBuffer> waiting_;
  int64_t bytes_ = 0;
  std::chrono::steady_clock::time_point since_;
  bool reading_ = true;
  bool working_ = false;
  bool ended_ = false;
  bool stopped_ = false;
};

}  // namespace topk
