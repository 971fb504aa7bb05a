#include "server/auxiliary/reflector.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

namespace topk {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using grpc::reflection::v1alpha::ErrorResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Two files: low.proto declares low.Base, which can be extended, and high.proto
// imports it twice over, extends it and declares a service.
class ReflectorTest : public ::testing::Test {
 protected:
  ReflectorTest() {
    FileDescriptorProto low;
    low.set_name("low.proto");
    low.set_package("low");
    auto* base = low.add_message_type();
    base->set_name("Base");
    base->add_extension_range()->set_start(100);
    base->mutable_extension_range(0)->set_end(200);
    EXPECT_NE(pool_.BuildFile(low), nullptr);

    FileDescriptorProto middle;
    middle.set_name("middle.proto");
    middle.add_dependency("low.proto");
    EXPECT_NE(pool_.BuildFile(middle), nullptr);

    FileDescriptorProto high;
    high.set_name("high.proto");
    high.set_package("high");
    high.add_dependency("low.proto");
    high.add_dependency("middle.proto");
    for (const int number : {100, 150}) {
      FieldDescriptorProto* extension = high.add_extension();
      extension->set_name("extension_" + std::to_string(number));
      extension->set_number(number);
      extension->set_type(FieldDescriptorProto::TYPE_INT32);
      extension->set_label(FieldDescriptorProto::LABEL_OPTIONAL);
      extension->set_extendee(".low.Base");
    }
    auto* service = high.add_service();
    service->set_name("Service");
    auto* method = service->add_method();
    method->set_name("Call");
    method->set_input_type(".low.Base");
    method->set_output_type(".low.Base");
    EXPECT_NE(pool_.BuildFile(high), nullptr);
  }

  ServerReflectionResponse Ask(const ServerReflectionRequest& request) {
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(reflector_.Answer(request).Dump(&slices).ok());
    std::string bytes;
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    ServerReflectionResponse response;
    EXPECT_TRUE(response.ParseFromString(bytes));
    EXPECT_EQ(response.valid_host(), request.host());
    EXPECT_EQ(response.original_request().SerializeAsString(),
              request.SerializeAsString());
    return response;
  }

  ServerReflectionResponse AskForSymbol(const std::string& symbol) {
    ServerReflectionRequest request;
    request.set_host("some.host");
    request.set_file_containing_symbol(symbol);
    return Ask(request);
  }

  ServerReflectionResponse AskForExtension(const std::string& type,
                                           int number) {
    ServerReflectionRequest request;
    request.mutable_file_containing_extension()->set_containing_type(type);
    request.mutable_file_containing_extension()->set_extension_number(number);
    return Ask(request);
  }

  DescriptorPool pool_;
  Reflector reflector_{pool_, {"high.Service", "other.Service"}};
};

std::vector<std::string> Files(const ServerReflectionResponse& response) {
  std::vector<std::string> names;
  for (const std::string& bytes :
       response.file_descriptor_response().file_descriptor_proto()) {
    FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(bytes));
    names.push_back(file.name());
  }
  return names;
}

std::string Error(const ServerReflectionResponse& response) {
  EXPECT_FALSE(response.has_file_descriptor_response());
  EXPECT_EQ(response.error_response().error_code(), grpc::NOT_FOUND);
  return response.error_response().error_message();
}

TEST_F(ReflectorTest, ListsItsServices) {
  ServerReflectionRequest request;
  request.set_list_services("*");
  const ServerReflectionResponse response = Ask(request);
  std::vector<std::string> names;
  for (const auto& service : response.list_services_response().service()) {
    names.push_back(service.name());
  }
  EXPECT_THAT(names, ElementsAre("high.Service", "other.Service"));
}

TEST_F(ReflectorTest, SendsAFileAndItsImportsEachOnce) {
  for (const char* symbol :
       {"high.Service", "high.Service.Call", "high.extension_100"}) {
    // Twice: the second time from what it has serialized.
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(Files(AskForSymbol(symbol)),
                  ElementsAre("high.proto", "low.proto", "middle.proto"))
          << symbol;
    }
  }
  EXPECT_THAT(Files(AskForSymbol("low.Base")), ElementsAre("low.proto"));
  ServerReflectionRequest request;
  request.set_file_by_filename("middle.proto");
  EXPECT_THAT(Files(Ask(request)), ElementsAre("middle.proto", "low.proto"));
}

TEST_F(ReflectorTest, FindsExtensions) {
  EXPECT_THAT(Files(AskForExtension("low.Base", 150)),
              ElementsAre("high.proto", "low.proto", "middle.proto"));
  ServerReflectionRequest request;
  request.set_all_extension_numbers_of_type("low.Base");
  const ServerReflectionResponse response = Ask(request);
  EXPECT_EQ(response.all_extension_numbers_response().base_type_name(),
            "low.Base");
  EXPECT_THAT(response.all_extension_numbers_response().extension_number(),
              UnorderedElementsAre(100, 150));
}

TEST_F(ReflectorTest, ReportsUnknownSymbols) {
  EXPECT_EQ(Error(AskForSymbol("")), "Symbol not found.");
  EXPECT_EQ(Error(AskForSymbol("high.Nothing")), "Symbol not found.");
  EXPECT_EQ(Error(AskForExtension("low.Base", 101)), "Extension not found.");
  EXPECT_EQ(Error(AskForExtension("low.Nothing", 100)), "Type not found.");
  ServerReflectionRequest request;
  request.set_file_by_filename("none.proto");
  EXPECT_EQ(Error(Ask(request)), "File not found.");
  request.set_all_extension_numbers_of_type("low.Nothing");
  EXPECT_EQ(Error(Ask(request)), "Type not found.");
}

TEST_F(ReflectorTest, RejectsEmptyRequests) {
  const ServerReflectionResponse response = Ask({});
  EXPECT_EQ(response.error_response().error_code(), grpc::UNIMPLEMENTED);
  EXPECT_THAT(Files(response), IsEmpty());
}

}  // namespace
}  // namespace topk
