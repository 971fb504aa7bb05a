#include "server/auxiliary/reflector.h"

#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/support/status.h>

#include <set>

namespace topk {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;
using grpc::reflection::v1alpha::ExtensionRequest;
using grpc::reflection::v1alpha::FileDescriptorResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

// Appends a file and those that it imports, each once.
void AppendFiles(const FileDescriptor& file,
                 std::set<const FileDescriptor*>& seen,
                 FileDescriptorResponse& to) {
  if (!seen.insert(&file).second) return;
  FileDescriptorProto proto;
  file.CopyTo(&proto);
  to.add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) {
    AppendFiles(*file.dependency(i), seen, to);
  }
}

void SetError(grpc::StatusCode code, const char* message,
              ServerReflectionResponse& to) {
  to.mutable_error_response()->set_error_code(code);
  to.mutable_error_response()->set_error_message(message);
}

// Returns what was found, or null with an error.
template <class Found>
const Found* OrNotFound(const Found* found, const char* message,
                        ServerReflectionResponse& response) {
  if (found == nullptr) SetError(grpc::NOT_FOUND, message, response);
  return found;
}

}  // namespace

grpc::ByteBuffer Reflector::Answer(const ServerReflectionRequest& request) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  const FileDescriptor* file = nullptr;
  switch (request.message_request_case()) {
    case Request::kFileByFilename:
    case Request::kFileContainingSymbol:
    case Request::kFileContainingExtension:
      file = FindFile(request, response);
      break;
    case Request::kAllExtensionNumbersOfType:
      ListExtensions(request.all_extension_numbers_of_type(), response);
      break;
    case Request::kListServices:
      for (const std::string& name : services_) {
        response.mutable_list_services_response()->add_service()->set_name(
            name);
      }
      break;
    case Request::MESSAGE_REQUEST_NOT_SET:
      SetError(grpc::UNIMPLEMENTED, "the request has no message_request",
               response);
      break;
  }
  // Bytes of one message after those of another are the merged message.
  std::vector<grpc::Slice> slices = {grpc::Slice(response.SerializeAsString())};
  if (file != nullptr) slices.push_back(FilesOf(*file));
  return {slices.data(), slices.size()};
}

const FileDescriptor* Reflector::FindFile(const Request& request,
                                          Response& response) const {
  if (request.has_file_by_filename()) {
    return OrNotFound(pool_.FindFileByName(request.file_by_filename()),
                      "File not found.", response);
  }
  if (request.has_file_containing_symbol()) {
    return OrNotFound(
        pool_.FindFileContainingSymbol(request.file_containing_symbol()),
        "Symbol not found.", response);
  }
  const ExtensionRequest& extension = request.file_containing_extension();
  const Descriptor* type =
      OrNotFound(pool_.FindMessageTypeByName(extension.containing_type()),
                 "Type not found.", response);
  if (type == nullptr) return nullptr;
  const FieldDescriptor* field = OrNotFound(
      pool_.FindExtensionByNumber(type, extension.extension_number()),
      "Extension not found.", response);
  return field == nullptr ? nullptr : field->file();
}

void Reflector::ListExtensions(const std::string& name,
                               Response& response) const {
  const Descriptor* type = OrNotFound(pool_.FindMessageTypeByName(name),
                                      "Type not found.", response);
  if (type == nullptr) return;
  std::vector<const FieldDescriptor*> extensions;
  pool_.FindAllExtensions(type, &extensions);
  auto& numbers = *response.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(name);
  for (const FieldDescriptor* extension : extensions) {
    numbers.add_extension_number(extension->number());
  }
}

grpc::Slice Reflector::FilesOf(const FileDescriptor& file) {
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = files_.try_emplace(&file);
  if (is_new) {
    ServerReflectionResponse part;
    std::set<const FileDescriptor*> seen;
    AppendFiles(file, seen, *part.mutable_file_descriptor_response());
    entry->second = grpc::Slice(part.SerializeAsString());
  }
  return entry->second;
}

}  // namespace topk
