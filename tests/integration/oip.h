// Requests with tensors in shared memory, also of the Open Inference Protocol,
// and a server that allows them.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "inference/grpc_service.grpc.pb.h"
#include "tests/integration/ask.h"
#include "tests/support/generators.h"
#include "tests/support/oracle.h"
#include "tests/support/requests.h"
#include "tests/support/test_server.h"
#include "topk/shared_memory.h"

namespace topk::testing {

using inference::GRPCInferenceService;
using OipStub = GRPCInferenceService::Stub;
using inference::ModelInferRequest;
using inference::ModelInferResponse;

inline ServerConfig SharedMemoryConfig() {
  ServerConfig config;
  config.allow_shared_memory = true;
  config.shared_memory_prefix = "/topk-test";
  return config;
}

/// Returns an object name unique to this process and test.
inline std::string Name(const std::string& what) {
  return StrCat("/topk-test-", getpid(), "-",
                ::testing::UnitTest::GetInstance()->current_test_info()->name(),
                "-", what);
}

/// Creates an object. The test fails if it cannot be created.
inline SharedMemory Make(const std::string& name, size_t bytes) {
  Result<SharedMemory> memory = SharedMemory::Create(name, bytes);
  EXPECT_TRUE(memory.ok()) << memory.status().message;
  return *std::move(memory);
}

inline void Write(std::string_view bytes, size_t offset, SharedMemory& memory) {
  std::ranges::copy(std::as_bytes(std::span(bytes)),
                    memory.data().begin() + static_cast<ptrdiff_t>(offset));
}

inline std::string Bytes(const SharedMemory& memory,
                         const v1::SharedMemoryRegion& region) {
  return {reinterpret_cast<const char*>(memory.data().data()) + region.offset(),
          static_cast<size_t>(region.byte_size())};
}

/// Truncates or extends the named object.
inline void Resize(const std::string& name, size_t bytes) {
  const int fd = shm_open(name.c_str(), O_RDWR, 0);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  close(fd);
}

/// Returns a request with a tensor of random data in the message.
inline v1::TopKRequest Request(v1::DataType type,
                               const std::vector<int64_t>& shape, int64_t axis,
                               int64_t k) {
  const bool small = type > v1::DATA_TYPE_U64;  // supported by OpenVINO only
  v1::TopKRequest request = small ? OpenVinoRequest(type, shape, k, axis)
                                  : OnnxRequest(type, shape, k, axis);
  if (!small) request.mutable_spec()->set_version(24);
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  Random random(7);
  request.mutable_tensor()->set_data(RandomData(random, type, count));
  return request;
}

inline v1::TopKRequest InMemory(v1::TopKRequest request, size_t offset,
                                SharedMemory& memory) {
  const std::string data = request.tensor().data();
  Write(data, offset, memory);
  *request.mutable_tensor()->mutable_shared_memory() =
      memory.Region(offset, data.size());
  return request;
}

/// A server that allows shared memory, and its client.
class SharedMemoryTest : public ::testing::Test {
 protected:
  explicit SharedMemoryTest(const ServerConfig& config = SharedMemoryConfig())
      : server_(config) {}

  v1::TopKResponse Answer(const v1::TopKRequest& request) {
    CallResult asked = Ask(*stub_, request);
    EXPECT_TRUE(asked.status.ok()) << asked.status.error_message();
    return std::move(asked.response);
  }

  void ExpectRefused(const v1::TopKRequest& request, grpc::StatusCode code,
                     const std::string& reason, const std::string& field) {
    const CallResult asked = Ask(*stub_, request);
    EXPECT_EQ(asked.status.error_code(), code) << reason;
    ASSERT_FALSE(asked.status.ok());
    EXPECT_EQ(asked.reason(), reason) << asked.status.error_message();
    EXPECT_EQ(asked.field(), field) << asked.status.error_message();
  }

  const TestServer server_;
  const std::unique_ptr<v1::TopKService::Stub> stub_ = server_.Stub();
};

// Returns the protocol's name of a type, e.g. FP32 for F32.
inline std::string NameOf(v1::DataType type) {
  const std::string name =
      v1::DataType_Name(type).substr(std::string_view("DATA_TYPE_").size());
  const std::map<char, std::string> prefixes = {
      {'B', "B"}, {'F', "FP"}, {'I', "INT"}, {'U', "UINT"}};
  return prefixes.at(name.front()) + name.substr(1);
}

inline void SetInt(ModelInferRequest& to, const char* name, int64_t value) {
  (*to.mutable_parameters())[name].set_int64_param(value);
}
inline void SetText(ModelInferRequest& to, const char* name,
                    const std::string& text) {
  (*to.mutable_parameters())[name].set_string_param(text);
}

// Adds an input with its data as raw contents.
template <class Shape>
void AddInput(ModelInferRequest& to, const char* name,
              const std::string& datatype, const Shape& shape,
              const std::string& data) {
  auto& input = *to.add_inputs();
  input.set_name(name);
  input.set_datatype(datatype);
  input.mutable_shape()->Add(shape.begin(), shape.end());
  to.add_raw_input_contents(data);
}
inline void AddK(ModelInferRequest& to, const char* datatype,
                 const std::string& data) {
  AddInput(to, "K", datatype, std::array<int64_t, 1>{1}, data);
}

// Sends K as a number or as a tensor, as in the original request.
inline void SetK(const v1::KInput& k, ModelInferRequest& to) {
  if (k.has_value()) return SetInt(to, "k", k.value());
  AddInput(to, "K", NameOf(k.tensor().data_type()), k.tensor().shape(),
           k.tensor().data());
}

inline void SetOnnx(const v1::OnnxTopK& onnx, ModelInferRequest& to) {
  to.set_model_name("onnx_topk");
  if (onnx.has_axis()) SetInt(to, "axis", onnx.axis());
  if (onnx.has_largest()) SetInt(to, "largest", onnx.largest());
  if (onnx.has_sorted()) SetInt(to, "sorted", onnx.sorted());
  SetK(onnx.k(), to);
}

inline void SetOpenVino(const v1::OpenVinoTopK& openvino,
                        ModelInferRequest& to) {
  to.set_model_name("openvino_topk");
  if (openvino.has_axis()) SetInt(to, "axis", openvino.axis());
  SetText(to, "mode", openvino.mode());
  SetText(to, "sort", openvino.sort());
  if (openvino.has_stable()) {
    (*to.mutable_parameters())["stable"].set_bool_param(openvino.stable());
  }
  if (openvino.has_index_element_type()) {
    SetText(to, "index_element_type", openvino.index_element_type());
  }
  SetK(openvino.k(), to);
}

inline void SetDirectML(const v1::DirectMLTopK& directml,
                        ModelInferRequest& to) {
  to.set_model_name("directml_topk");
  SetInt(to, "axis", directml.axis());
  SetInt(to, "k", directml.k());
  SetText(to, "axis_direction",
          v1::AxisDirection_Name(directml.axis_direction()));
  SetText(to, "feature_level", v1::FeatureLevel_Name(directml.feature_level()));
  SetInt(to, "input_total_tensor_size_bytes",
         directml.input_total_tensor_size_bytes());
  SetInt(to, "output_index.data_type", directml.output_index().data_type());
  SetInt(to, "output_value.data_type", directml.output_value().data_type());
  (*to.mutable_parameters())["strict"].set_bool_param(directml.strict());
}

// Returns whether the protocol can express a request. The protocol has neither
// strides nor OpenVINO's small types.
inline bool IsExpressible(const v1::TopKRequest& request) {
  const v1::DirectMLTopK& directml = request.directml();
  for (const v1::TensorDesc& desc :
       {directml.output_value(), directml.output_index()}) {
    if (desc.strides_size() > 0 || desc.total_tensor_size_bytes() > 0) {
      return false;
    }
  }
  return request.tensor().strides().empty() &&
         request.tensor().data_type() <= v1::DATA_TYPE_U64 &&
         request.openvino().k().tensor().data_type() <= v1::DATA_TYPE_U64;
}

// Translates a request to the protocol, with its tensor as raw contents.
inline ModelInferRequest Translate(const v1::TopKRequest& request) {
  ModelInferRequest to;
  to.set_model_version(StrCat(request.spec().version()));
  to.set_id(request.request_id());
  const v1::Tensor& x = request.tensor();
  AddInput(to, "X", NameOf(x.data_type()), x.shape(), x.data());
  SetInt(to, "index_offset", request.index_offset());
  if (request.has_onnx()) SetOnnx(request.onnx(), to);
  if (request.has_openvino()) SetOpenVino(request.openvino(), to);
  if (request.has_directml()) SetDirectML(request.directml(), to);
  const auto selection = request.output().selection();
  if (selection == v1::OUTPUT_SELECTION_VALUES_ONLY) {
    to.add_outputs()->set_name("values");
  } else if (selection == v1::OUTPUT_SELECTION_INDICES_ONLY) {
    to.add_outputs()->set_name("indices");
  }
  return to;
}

// Expects that an output of the response equals `expected`.
inline void ExpectTensor(const ModelInferResponse& answer, int place,
                         const char* name, const v1::Tensor& expected) {
  ASSERT_LT(place, answer.outputs_size());
  ASSERT_EQ(answer.outputs_size(), answer.raw_output_contents_size());
  const auto& output = answer.outputs(place);
  EXPECT_EQ(output.name(), name);
  EXPECT_EQ(output.datatype(), NameOf(expected.data_type()));
  EXPECT_TRUE(std::ranges::equal(output.shape(), expected.shape()));
  EXPECT_EQ(answer.raw_output_contents(place), expected.data());
}

inline void ExpectSame(const ModelInferResponse& answer,
                       const v1::TopKResponse& expected) {
  int place = 0;
  if (expected.has_values()) {
    ExpectTensor(answer, place++, "values", expected.values());
  }
  if (expected.has_indices()) {
    ExpectTensor(answer, place++, "indices", expected.indices());
  }
  EXPECT_EQ(answer.outputs_size(), place);
}

template <class Parameters>
inline void SetRegion(const std::string& region, int64_t offset, int64_t bytes,
                      Parameters& parameters) {
  parameters["shared_memory_region"].set_string_param(region);
  parameters["shared_memory_offset"].set_int64_param(offset);
  parameters["shared_memory_byte_size"].set_int64_param(bytes);
}

// Returns a request for the 2 largest of 5 numbers.
inline ModelInferRequest SmallInferRequest() {
  ModelInferRequest request = Translate(OnnxRequest({1, 5, 3, 2, 4}, 2));
  request.set_id("usual");
  return request;
}

inline grpc::Status Register(OipStub& stub, const std::string& name,
                             const std::string& key, uint64_t bytes,
                             uint64_t offset = 0) {
  inference::SystemSharedMemoryRegisterRequest request;
  request.set_name(name);
  request.set_key(key);
  request.set_offset(offset);
  request.set_byte_size(bytes);
  return CallUnary(stub, &OipStub::SystemSharedMemoryRegister, request).status;
}

// A server, optionally with shared memory, and clients of both services.
class Oip : public SharedMemoryTest {
 protected:
  explicit Oip(const ServerConfig& config = SharedMemoryConfig())
      : SharedMemoryTest(config) {}

  ModelInferResponse Infer(const ModelInferRequest& request) {
    auto answered = CallUnary(*oip_, &OipStub::ModelInfer, request);
    EXPECT_TRUE(answered.status.ok()) << answered.status.error_message();
    return std::move(answered.response);
  }

  // Returns the message.
  std::string ExpectRefusal(const ModelInferRequest& request,
                            grpc::StatusCode code, const std::string& text,
                            const std::string& field) {
    const grpc::Status status =
        CallUnary(*oip_, &OipStub::ModelInfer, request).status;
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), ::testing::HasSubstr(text));
    EXPECT_EQ((*DetailsOf(status).info.mutable_metadata())["field"], field);
    return status.error_message();
  }

  // Makes a call whose tensor is at `offset` of the region "all", and one that
  // also writes its values to the region. Returns the second request.
  ModelInferRequest ExpectInRegion(const v1::TopKRequest& plain,
                                   const v1::TopKResponse& expected,
                                   int64_t offset) {
    ModelInferRequest request = Translate(plain);
    request.clear_raw_input_contents();
    SetRegion("all", offset, 8000,
              *request.mutable_inputs(0)->mutable_parameters());
    ExpectSame(Infer(request), expected);
    request.add_outputs()->set_name("values");
    request.add_outputs()->set_name("indices");
    auto& output = *request.mutable_outputs(0)->mutable_parameters();
    SetRegion("all", 0, 479, output);
    ExpectRefusal(request, grpc::StatusCode::INVALID_ARGUMENT,
                  "byte_size 479 is less than the output's 480 bytes",
                  "outputs.parameters");
    SetRegion("all", 9000, 1000, output);
    const ModelInferResponse answer = Infer(request);
    EXPECT_EQ(answer.raw_output_contents_size(), 2);
    EXPECT_EQ(answer.raw_output_contents(0), "");
    EXPECT_EQ(answer.raw_output_contents(1), expected.indices().data());
    const auto& written = answer.outputs(0).parameters();
    EXPECT_EQ(written.at("shared_memory_region").string_param(), "all");
    EXPECT_EQ(written.at("shared_memory_offset").int64_param(), 9000);
    EXPECT_EQ(written.at("shared_memory_byte_size").int64_param(), 480);
    return request;
  }

  grpc::Status Register(const std::string& name, const SharedMemory& memory) {
    return testing::Register(*oip_, name, memory.name(), memory.data().size());
  }

  const std::unique_ptr<OipStub> oip_ =
      GRPCInferenceService::NewStub(server_.Connect());
};

}  // namespace topk::testing
