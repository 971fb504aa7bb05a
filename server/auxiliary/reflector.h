// Answers to questions about the contracts of a server's services.
#pragma once

#include <google/protobuf/descriptor.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "grpc/reflection/v1alpha/reflection.pb.h"

namespace topk {

/// Answers requests of grpc.reflection from a pool of descriptors. Thread-safe.
class Reflector {
 public:
  /// `services` are the full names of the services to list. The pool outlives
  /// this.
  Reflector(const google::protobuf::DescriptorPool& pool,
            std::vector<std::string> services)
      : pool_(pool), services_(std::move(services)) {}

  /// Returns the bytes of a ServerReflectionResponse. Names that are not in the
  /// pool have an error response.
  grpc::ByteBuffer Answer(
      const grpc::reflection::v1alpha::ServerReflectionRequest& request);

 private:
  using Request = grpc::reflection::v1alpha::ServerReflectionRequest;
  using Response = grpc::reflection::v1alpha::ServerReflectionResponse;
  using File = google::protobuf::FileDescriptor;

  // Returns the file to send, or null after setting an error.
  const File* FindFile(const Request& request, Response& response) const;

  void ListExtensions(const std::string& type, Response& response) const;

  // Returns the part of a response that holds a file and those that it imports.
  grpc::Slice FilesOf(const File& file);

  const google::protobuf::DescriptorPool& pool_;
  const std::vector<std::string> services_;
  std::mutex mutex_;
  // Serialized once: few files are asked for many times.
  std::map<const File*, grpc::Slice> files_;
};

}  // namespace topk
