#include "client/bytes_call.h"

#include <grpcpp/completion_queue.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <memory>

#include "client/check_response.h"
#include "client/rpc_error.h"

namespace topk {
namespace {

// The operation that an event of the completion queue belongs to.
enum class Event { kStart = 1, kWrite, kWritesDone, kRead, kFinish };

void* TagOf(Event event) {
  return reinterpret_cast<void*>(static_cast<intptr_t>(event));
}

// Waits for the next event of a call. REQUIRES: an operation is in flight.
Event Next(grpc::CompletionQueue& queue, bool& ok) {
  void* tag = nullptr;
  queue.Next(&tag, &ok);
  return static_cast<Event>(reinterpret_cast<intptr_t>(tag));
}

// Runs one stream. At most one write and one read are in flight.
class Stream {
 public:
  Stream(grpc::GenericStub& stub, const std::string& method,
         const StreamHandlers& handlers, grpc::CompletionQueue& queue,
         grpc::ClientContext& context, BorrowedBuffers& borrowed)
      : handlers_(handlers),
        queue_(queue),
        context_(context),
        borrowed_(borrowed),
        stream_(stub.PrepareCall(&context, method, &queue)) {}

  Status Run() {
    stream_->StartCall(TagOf(Event::kStart));
    bool ok = false;
    Next(queue_, ok);
    if (ok) {
      Read();
      Write();
      while (reading_ || writing_) Take();
    }
    grpc::Status status;
    stream_->Finish(&status, TagOf(Event::kFinish));
    Next(queue_, ok);
    if (!bad_.ok()) return bad_;
    return status.ok() ? Status{} : FromGrpc(status, context_);
  }

 private:
  void Read() {
    reading_ = true;
    stream_->Read(&incoming_, TagOf(Event::kRead));
  }

  void Write() {
    writing_ = true;
    const std::optional<StreamHandlers::Message> message = handlers_.next();
    if (!message.has_value()) {
      stream_->WritesDone(TagOf(Event::kWritesDone));
      return;
    }
    grpc::WriteOptions options;
    if (message->more) options.set_buffer_hint();
    stream_->Write(borrowed_.Wrap(message->pieces), options,
                   TagOf(Event::kWrite));
  }

  void Take() {
    bool ok = false;
    switch (Next(queue_, ok)) {
      case Event::kWrite:
        writing_ = false;
        // If a write fails, the server has already ended the call with a
        // status.
        if (ok && reading_) Write();
        break;
      case Event::kRead:
        reading_ = false;
        if (!ok) break;
        bad_ = handlers_.receive(incoming_);
        if (bad_.ok()) {
          Read();
        } else {
          context_.TryCancel();
        }
        break;
      default:
        writing_ = false;
    }
  }

  const StreamHandlers& handlers_;
  grpc::CompletionQueue& queue_;
  grpc::ClientContext& context_;
  BorrowedBuffers& borrowed_;
  const std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer incoming_;
  bool reading_ = false;
  bool writing_ = false;
  Status bad_;
};

// Calls `run` with a new context and waits until gRPC has released the
// request's memory. Returns the result of `run`.
template <class Run>
Status InContext(Memory memory,
                 const std::function<void(grpc::ClientContext&)>& prepare,
                 const std::stop_token& stop, Run run) {
  BorrowedBuffers borrowed(memory);
  grpc::CompletionQueue queue;
  Status status;
  {
    grpc::ClientContext context;
    prepare(context);
    const std::stop_callback cancel(stop, [&] { context.TryCancel(); });
    status = run(queue, context, borrowed);
  }
  borrowed.AwaitReturn(queue);
  return status;
}

}  // namespace

Status CallUnary(grpc::GenericStub& stub, const std::string& method,
                 Memory memory, const std::vector<MessagePiece>& request,
                 const std::function<void(grpc::ClientContext&)>& prepare,
                 const std::stop_token& stop, grpc::ByteBuffer& answer) {
  return InContext(memory, prepare, stop,
                   [&](auto& queue, auto& context, auto& borrowed) {
                     const auto call = stub.PrepareUnaryCall(
                         &context, method, borrowed.Wrap(request), &queue);
                     call->StartCall();
                     grpc::Status end;
                     call->Finish(&answer, &end, TagOf(Event::kFinish));
                     bool ok = false;
                     Next(queue, ok);
                     return end.ok() ? Status() : FromGrpc(end, context);
                   });
}

Status CallStream(grpc::GenericStub& stub, const std::string& method,
                  Memory memory, const StreamHandlers& handlers,
                  const std::function<void(grpc::ClientContext&)>& prepare,
                  const std::stop_token& stop) {
  return InContext(
      memory, prepare, stop, [&](auto& queue, auto& context, auto& borrowed) {
        return Stream(stub, method, handlers, queue, context, borrowed).Run();
      });
}

Status ReadAnswer(grpc::ByteBuffer& bytes,
                  google::protobuf::MessageLite& message) {
  grpc::ProtoBufferReader reader(&bytes);
  if (reader.status().ok() && message.ParseFromZeroCopyStream(&reader)) {
    return {};
  }
  return BadAnswer("", "not a message that the method returns");
}

}  // namespace topk
