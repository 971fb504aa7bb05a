// Calls any method with any bytes, valid or not.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace topk::testing {

struct RawAnswer {
  grpc::Status status;
  /// The unparsed response messages.
  std::vector<std::string> messages;
};

/// Waits for the only operation in flight. Returns whether it succeeded.
inline bool AwaitOperation(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  return queue.Next(&tag, &ok) && ok;
}

inline std::string Text(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!bytes.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

/// Calls a method of any kind, e.g. "/topk.v1.TopKService/ComputeTopK". Sends
/// the metadata, calls `meanwhile` unless empty, sends the messages, which must
/// be small, and then reads all responses, within 20 s.
inline RawAnswer RawCall(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
    const std::vector<std::string>& messages,
    const std::vector<std::pair<std::string, std::string>>& metadata = {},
    const std::function<void()>& meanwhile = {}) {
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(20));
  for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
  const auto call =
      grpc::GenericStub(channel).PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  bool open = AwaitOperation(queue);
  if (meanwhile) meanwhile();
  for (size_t i = 0; open && i < messages.size(); ++i) {
    const grpc::Slice slice(messages[i]);
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    open = AwaitOperation(queue);
  }
  if (open) {
    call->WritesDone(nullptr);
    AwaitOperation(queue);
  }
  RawAnswer answer;
  grpc::ByteBuffer bytes;
  for (call->Read(&bytes, nullptr); AwaitOperation(queue);
       call->Read(&bytes, nullptr)) {
    answer.messages.push_back(Text(bytes));
  }
  call->Finish(&answer.status, nullptr);
  AwaitOperation(queue);
  queue.Shutdown();
  return answer;
}

}  // namespace topk::testing
