// Calls with retries, driven by the events of a completion queue.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "client/channel.h"
#include "client/retry.h"
#include "core/common/message_pieces.h"
#include "topk/client.h"

namespace topk {

/// Returns a buffer with the bytes of all pieces. Borrowed pieces are copied,
/// unless `borrowed` is set. Then the buffer refers to their memory, and
/// `borrowed` counts the pieces that gRPC has not released yet.
grpc::ByteBuffer BufferOf(const std::vector<MessagePiece>& pieces,
                          std::atomic<int64_t>* borrowed = nullptr);

/// A unary or streaming call. Derived classes return the messages to send and
/// consume those of the server.
class ClientCall {
 public:
  /// `connection` and `queue` must outlive the call. `path` is the method.
  /// REQUIRES: Only one thread polls the queue of a streaming call.
  ClientCall(Connection& connection, grpc::CompletionQueue& queue,
             std::string_view path, bool is_unary);
  virtual ~ClientCall() = default;

  /// Starts the call, with the client's retries if `retries` is set. Returns
  /// false if the call has ended already, because nothing could be sent.
  /// `options` must outlive the call. A call that has ended can be started
  /// again.
  bool Start(const CallOptions& options, bool retries = true);

  /// Handles an event of a queue. Returns the call if it has ended, otherwise
  /// null.
  static ClientCall* Handle(void* tag, bool ok);

  /// Makes the call on this thread, and waits until gRPC has released the
  /// borrowed memory. REQUIRES: The queue has no other calls.
  Status Run(const CallOptions& options, bool retries = true);

  /// The error of the call, which has ended.
  const Status& status() const { return status_; }

 protected:
  struct Message {
    grpc::ByteBuffer bytes;
    grpc::WriteOptions options = {};
  };

  /// Returns the next message, or nullopt after the last message.
  virtual std::optional<Message> Next() = 0;
  /// Consumes a message from the server. Returning an error ends the call.
  virtual Status Receive(grpc::ByteBuffer& bytes) = 0;
  /// Goes back to the first unanswered request, before another attempt.
  virtual void Rewind() = 0;

  /// Returns a buffer for a message, if possible without copying the pieces,
  /// which must not change until Run() returns.
  grpc::ByteBuffer Borrow(const std::vector<MessagePiece>& pieces);

 private:
  using Clock = std::chrono::steady_clock;

  enum Event { kStart, kWrite, kRead, kFinish, kPause, kEvents };
  struct Tag {
    ClientCall* call;
    Event event;
  };

  void* TagOf(Event event);
  Status Check() const;
  bool Attempt();
  bool OnEvent(Event event, bool ok);
  void Write();
  bool End();
  void Pause();

  Connection& connection_;
  grpc::CompletionQueue& queue_;
  const std::string path_;
  const bool is_unary_;
  Tag tags_[kEvents];
  const CallOptions* options_ = nullptr;
  std::chrono::system_clock::time_point deadline_;
  std::optional<Attempts> attempts_;
  Clock::time_point next_attempt_;
  Status status_;
  std::atomic<int64_t> borrowed_ = 0;
  // The attempt. The context must outlive the members below.
  std::optional<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> unary_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::optional<std::stop_callback<std::function<void()>>> cancel_;
  grpc::ByteBuffer incoming_;
  grpc::Status end_;
  Status bad_;          // why a message of a stream was not accepted
  bool more_ = false;   // whether there are more messages to write
  bool begun_ = false;  // whether a message of a stream has arrived
  bool reading_ = false;
  bool writing_ = false;
};

}  // namespace topk
