// Tensors and outputs in the memory of a simulated GPU, in both protocols.
#include <fcntl.h>

#include <limits>
#include <utility>

#include "server/oip/regions.h"
#include "tests/integration/oip.h"
#include "tests/support/cuda/shared_device.h"

namespace topk::testing {
namespace {

constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;

ServerConfig CudaConfig() {
  ServerConfig config = SharedMemoryConfig();
  config.allow_cuda_memory = true;
  return config;
}

v1::CudaMemoryRegion RegionOf(const SharedAllocation& memory, int64_t offset,
                              int64_t bytes) {
  v1::CudaMemoryRegion region;
  region.set_ipc_handle(memory.handle());
  region.set_device_uuid(SharedDeviceUuid());
  region.set_offset(offset);
  region.set_byte_size(bytes);
  return region;
}

std::string Bytes(const SharedAllocation& memory, int64_t offset,
                  size_t bytes) {
  return {reinterpret_cast<const char*>(memory.bytes().data()) + offset, bytes};
}

// Moves the tensor of a request to `offset` of `memory`.
v1::TopKRequest OnDevice(v1::TopKRequest request, int64_t offset,
                         SharedAllocation& memory) {
  const std::string data = request.tensor().data();
  std::ranges::copy(std::as_bytes(std::span(data)),
                    memory.bytes().begin() + offset);
  *request.mutable_tensor()->mutable_cuda_memory() =
      RegionOf(memory, offset, static_cast<int64_t>(data.size()));
  return request;
}

// A server that allows CUDA memory and shared memory, and clients.
class CudaMemory : public Oip {
 protected:
  CudaMemory() : Oip(CudaConfig()) {}
  ~CudaMemory() override {
    // The server closes all memory, except memory that is still registered.
    EXPECT_EQ(CountShared(), 0u);
  }

  grpc::Status Register(const std::string& name, const SharedAllocation& memory,
                        uint64_t bytes, int64_t device = 0) {
    inference::CudaSharedMemoryRegisterRequest request;
    request.set_name(name);
    request.set_raw_handle(memory.handle());
    request.set_device_id(device);
    request.set_byte_size(bytes);
    return Register(request);
  }
  grpc::Status Register(
      const inference::CudaSharedMemoryRegisterRequest& request) {
    return CallUnary(*oip_, &OipStub::CudaSharedMemoryRegister, request).status;
  }

  grpc::Status Unregister(const std::string& name) {
    inference::CudaSharedMemoryUnregisterRequest request;
    request.set_name(name);
    return CallUnary(*oip_, &OipStub::CudaSharedMemoryUnregister, request)
        .status;
  }

  // Returns the number of regions, or -1 if the name is not known.
  int Regions(const std::string& name) {
    inference::CudaSharedMemoryStatusRequest request;
    request.set_name(name);
    const auto answered =
        CallUnary(*oip_, &OipStub::CudaSharedMemoryStatus, request);
    return answered.status.ok() ? answered.response.regions_size() : -1;
  }
};

TEST_F(CudaMemory, HoldsTensorsAndOutputs) {
  struct Case {
    v1::DataType type;
    std::vector<int64_t> shape;
    int64_t axis;
    int64_t k;
    const char* backend;
  };
  for (const Case& each : {Case{v1::DATA_TYPE_F32, {40, 50}, 1, 3, "cuda"},
                           Case{v1::DATA_TYPE_F16, {40, 50}, 0, 40, "cuda"},
                           Case{v1::DATA_TYPE_I64, {3, 70, 9}, 1, 7, "cuda"},
                           Case{v1::DATA_TYPE_U8, {100000}, 0, 500, "cuda"},
                           // The kernels support neither of these.
                           Case{v1::DATA_TYPE_U4, {7, 31}, 1, 3, "cpu"},
                           Case{v1::DATA_TYPE_F32, {0, 50}, 1, 3, "cpu"}}) {
    const v1::TopKRequest plain =
        Request(each.type, each.shape, each.axis, each.k);
    const v1::TopKResponse expected = Answer(plain);
    SharedAllocation memory(1 << 20);
    // The kernels read vectors of 16 bytes, which do not begin here.
    v1::TopKRequest request = OnDevice(plain, 24, memory);
    v1::TopKResponse response = Answer(request);
    EXPECT_EQ(Comparable(response), Comparable(expected));
    EXPECT_EQ(response.execution().backend(), each.backend);

    const size_t values = expected.values().data().size();
    const size_t indices = expected.indices().data().size();
    constexpr int64_t kValues = 1 << 18;
    constexpr int64_t kIndices = 1 << 19;
    *request.mutable_output()->mutable_cuda_values() =
        RegionOf(memory, kValues, 1 << 18);
    *request.mutable_output()->mutable_cuda_indices() =
        RegionOf(memory, kIndices, 1 << 19);
    for (const bool tensor_in_message : {false, true}) {
      std::ranges::fill(memory.bytes().subspan(kValues), std::byte{0xAA});
      if (tensor_in_message) *request.mutable_tensor() = plain.tensor();
      response = Answer(request);
      EXPECT_EQ(response.values().data().size(), 0u);
      EXPECT_EQ(response.values().cuda_memory().offset(), kValues);
      EXPECT_EQ(
          std::cmp_equal(response.values().cuda_memory().byte_size(), values),
          true);
      EXPECT_EQ(response.indices().cuda_memory().ipc_handle(), memory.handle());
      EXPECT_EQ(Bytes(memory, kValues, values), expected.values().data());
      EXPECT_EQ(Bytes(memory, kIndices, indices), expected.indices().data());
      // Nothing else was written.
      EXPECT_EQ(memory.bytes()[kValues + values], std::byte{0xAA});
      EXPECT_EQ(memory.bytes()[kIndices + indices], std::byte{0xAA});
    }
  }
}

TEST_F(CudaMemory, MayContainOnlySomeOfTheTensors) {
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_F32, {40, 50}, 1, 3);
  const v1::TopKResponse expected = Answer(plain);
  SharedAllocation memory(1 << 16);
  v1::TopKRequest request = OnDevice(plain, 0, memory);
  SharedMemory shared = Make(Name("x"), 1 << 12);
  *request.mutable_output()->mutable_values() = shared.Region(8, 480);
  v1::TopKResponse response = Answer(request);
  EXPECT_EQ(testing::Bytes(shared, response.values().shared_memory()),
            expected.values().data());
  EXPECT_EQ(response.indices().data(), expected.indices().data());

  // An output may overlap the tensor.
  *request.mutable_output()->mutable_cuda_values() = RegionOf(memory, 0, 480);
  response = Answer(request);
  EXPECT_EQ(Bytes(memory, 0, 480), expected.values().data());
  EXPECT_EQ(response.indices().data(), expected.indices().data());

  request = OnDevice(plain, 0, memory);
  request.mutable_output()->set_selection(v1::OUTPUT_SELECTION_INDICES_ONLY);
  *request.mutable_output()->mutable_cuda_indices() =
      RegionOf(memory, 8000, 960);
  response = Answer(request);
  EXPECT_FALSE(response.has_values());
  EXPECT_EQ(Bytes(memory, 8000, 960), expected.indices().data());
}

// The padding of an output is zero, as in a response.
TEST_F(CudaMemory, WritesThePaddingOfOutputs) {
  v1::TopKRequest plain =
      DirectMLRequest(v1::DATA_TYPE_F32, {1, 1, 4, 50}, 3, 3);
  plain.mutable_tensor()->set_data(
      Request(v1::DATA_TYPE_F32, {200}, 0, 1).tensor().data());
  v1::TensorDesc& desc = *plain.mutable_directml()->mutable_output_value();
  desc.set_total_tensor_size_bytes(64);
  const v1::TopKResponse expected = Answer(plain);
  ASSERT_EQ(expected.values().data().size(), 64u);
  SharedAllocation memory(2000);
  v1::TopKRequest request = OnDevice(plain, 0, memory);
  std::ranges::fill(memory.bytes().subspan(1000), std::byte{0xAA});
  *request.mutable_output()->mutable_cuda_values() =
      RegionOf(memory, 1000, 100);
  EXPECT_EQ(Answer(request).execution().backend(), "cuda");
  EXPECT_EQ(Bytes(memory, 1000, 64), expected.values().data());
  EXPECT_EQ(memory.bytes()[1064], std::byte{0xAA});
}

TEST_F(CudaMemory, ServesStreams) {
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_F32, {40, 50}, 1, 3);
  const v1::TopKResponse expected = Answer(plain);
  SharedAllocation memory(1 << 16);
  ManyCall many(server_);
  v1::TopKRequest request = OnDevice(plain, 0, memory);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Comparable(many.Ask(request).response()), Comparable(expected));
  }
  request.mutable_tensor()->mutable_cuda_memory()->set_ipc_handle("short");
  EXPECT_EQ(many.Ask(request).error().code(), static_cast<int>(kInvalid));
  EXPECT_TRUE(many.Finish().ok());

  v1::TopKRequestChunk header = HeaderOf(plain);
  *header.mutable_header()->mutable_output()->mutable_cuda_values() =
      RegionOf(memory, 100, 480);
  v1::TopKRequestChunk data;
  data.set_data(plain.tensor().data());
  StreamCall stream(server_);
  ASSERT_TRUE(stream->Write(header));
  ASSERT_TRUE(stream->Write(data));
  stream->WritesDone();
  v1::TopKResponseChunk chunk;
  ASSERT_TRUE(stream->Read(&chunk));
  EXPECT_EQ(chunk.header().values().cuda_memory().byte_size(), 480);
  EXPECT_EQ(Bytes(memory, 100, 480), expected.values().data());
  EXPECT_FALSE(stream->Read(&chunk));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(CudaMemory, ReportsInvalidRegions) {
  SharedAllocation memory(64);
  const v1::TopKRequest right =
      OnDevice(Request(v1::DATA_TYPE_F32, {4}, 0, 2), 0, memory);
  const std::string tensor = "tensor.cuda_memory";
  const auto with = [&](auto change) {
    v1::TopKRequest request = right;
    change(*request.mutable_tensor()->mutable_cuda_memory());
    return request;
  };
  SharedAllocation own(64, getpid());
  const std::string gone = SharedAllocation(64).handle();
  for (const std::string& handle :
       {std::string(), memory.handle().substr(1), memory.handle() + "x",
        std::string(64, 'x'), own.handle(), gone}) {
    ExpectRefused(with([&](auto& region) { region.set_ipc_handle(handle); }),
                  kInvalid, "CUDA_MEMORY_HANDLE", tensor + ".ipc_handle");
  }
  for (const std::string& uuid :
       {std::string(), std::string(16, 'x'), std::string(17, 'x')}) {
    ExpectRefused(with([&](auto& region) { region.set_device_uuid(uuid); }),
                  kInvalid, "CUDA_MEMORY_DEVICE", tensor + ".device_uuid");
  }
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const auto with_range = [&](int64_t offset, int64_t bytes) {
    return with([&](auto& region) {
      region.set_offset(offset);
      region.set_byte_size(bytes);
    });
  };
  const std::pair<v1::TopKRequest, const char*> ranges[] = {
      {with_range(-1, 16), ".offset"},      {with_range(65, 16), ".offset"},
      {with_range(kMax, 16), ".byte_size"}, {with_range(0, -1), ".byte_size"},
      {with_range(52, 16), ".byte_size"},   {with_range(2, 16), ".offset"},
  };
  for (const auto& [request, field] : ranges) {
    ExpectRefused(request, kInvalid, "CUDA_MEMORY_RANGE", tensor + field);
  }
  ExpectRefused(with_range(0, 12), kInvalid, "DATA_LENGTH",
                tensor + ".byte_size");

  v1::TopKRequest request = right;
  v1::OutputOptions& output = *request.mutable_output();
  for (const bool on_device : {true, false}) {
    if (!on_device) {  // copied to the device
      *request.mutable_tensor() =
          Request(v1::DATA_TYPE_F32, {4}, 0, 2).tensor();
    }
    output.Clear();
    *output.mutable_cuda_values() = RegionOf(memory, 0, 7);
    ExpectRefused(request, kInvalid, "CUDA_MEMORY_TOO_SMALL",
                  "output.cuda_values.byte_size");
    *output.mutable_cuda_values() = RegionOf(memory, 60, 8);
    ExpectRefused(request, kInvalid, "CUDA_MEMORY_RANGE",
                  "output.cuda_values.byte_size");
    *output.mutable_cuda_values() = RegionOf(memory, 1, kMax);
    ExpectRefused(request, kInvalid, "CUDA_MEMORY_RANGE",
                  "output.cuda_values.byte_size");
    *output.mutable_cuda_values() = RegionOf(memory, 0, 8);
    *output.mutable_cuda_indices() = RegionOf(memory, 7, 16);
    ExpectRefused(request, kInvalid, "CUDA_MEMORY_OVERLAP",
                  "output.cuda_indices");
    std::string other_handle = memory.handle();
    other_handle.back() = 'x';  // also names `memory`
    output.mutable_cuda_indices()->set_ipc_handle(other_handle);
    ExpectRefused(request, kInvalid, "CUDA_MEMORY_OVERLAP",
                  "output.cuda_indices");
    output.mutable_cuda_indices()->set_ipc_handle(gone);
    ExpectRefused(request, kInvalid, "CUDA_MEMORY_HANDLE",
                  "output.cuda_indices.ipc_handle");
    output.set_selection(v1::OUTPUT_SELECTION_VALUES_ONLY);
    ExpectRefused(request, kInvalid, "OUTPUT_NOT_SELECTED",
                  "output.cuda_indices");
  }
  v1::TopKRequest k = right;
  v1::Tensor& k_tensor = *k.mutable_onnx()->mutable_k()->mutable_tensor();
  *k_tensor.mutable_cuda_memory() = RegionOf(memory, 0, 8);
  k_tensor.set_data_type(v1::DATA_TYPE_I64);
  k_tensor.add_shape(1);
  ExpectRefused(k, grpc::StatusCode::UNIMPLEMENTED, "CUDA_MEMORY_NOT_ALLOWED",
                "onnx.k.tensor.cuda_memory");
  // The device still works.
  EXPECT_EQ(Answer(right).execution().backend(), "cuda");
}

TEST_F(CudaMemory, TheSpeedsOfTheDeviceAreLogged) {
  EXPECT_TRUE(server_.HasLogged("fake 0: a small request takes "));
  EXPECT_THAT(server_.Log(), ::testing::Not(::testing::HasSubstr("measured")));
  ServerConfig config = CudaConfig();
  config.device_memory_bytes = 1 << 20;  // too little to measure
  EXPECT_TRUE(TestServer(config).HasLogged("(not measured: "));
}

// Only a tensor that is copied to the host takes memory there.
TEST_F(CudaMemory, ChargesTensorsThatAreCopiedToTheHost) {
  ServerConfig config = CudaConfig();
  config.max_inflight_bytes = int64_t{32} << 20;
  const TestServer server(config);
  SharedAllocation memory(20 << 20);
  v1::TopKRequest request = OnnxRequest(v1::DATA_TYPE_U8, {20 << 20}, 3);
  *request.mutable_tensor()->mutable_cuda_memory() =
      RegionOf(memory, 0, 20 << 20);
  EXPECT_TRUE(Ask(server, request).status.ok());
  // Too little to sort, but enough to copy the tensor.
  config.device_memory_bytes = 1 << 20;
  const TestServer small(config);
  request.mutable_onnx()->mutable_k()->set_value(3000);
  EXPECT_EQ(Ask(small, request).reason(), "REQUEST_TOO_LARGE");
  request = OnDevice(Request(v1::DATA_TYPE_U8, {3 << 20}, 0, 3000), 0, memory);
  const CallResult sorted = Ask(small, request);
  ASSERT_TRUE(sorted.status.ok()) << sorted.status.error_message();
  EXPECT_EQ(sorted.response.execution().backend(), "cpu");
}

// The CPU computes these small requests, but their outputs are copied through
// buffers to the device.
TEST_F(CudaMemory, ChargesTheBuffersOfOutputs) {
  ServerConfig config = CudaConfig();
  config.max_inflight_bytes = int64_t{14} << 20;  // half of it for a client
  const TestServer server(config);
  SharedAllocation memory(64);
  v1::TopKRequest request = Request(v1::DATA_TYPE_F32, {4}, 0, 2);
  EXPECT_EQ(Ask(server, request).response.execution().backend(), "cpu");
  *request.mutable_output()->mutable_cuda_values() = RegionOf(memory, 0, 8);
  EXPECT_EQ(Ask(server, request).reason(), "REQUEST_TOO_LARGE");
  StreamCall stream(server);
  ASSERT_TRUE(stream->Write(HeaderOf(request)));
  v1::TopKResponseChunk chunk;
  EXPECT_FALSE(stream->Read(&chunk));
  EXPECT_EQ(DetailsOf(stream->Finish()).info.reason(), "REQUEST_TOO_LARGE");
}

TEST_F(CudaMemory, IsOpenOnlyDuringCallsOrWhileRegistered) {
  const v1::TopKRequest plain = Request(v1::DATA_TYPE_F32, {40, 50}, 1, 3);
  const v1::TopKResponse expected = Answer(plain);
  SharedAllocation memory(20000);
  OnDevice(plain, 96, memory);
  ASSERT_TRUE(Register("all", memory, 20000).ok());
  EXPECT_EQ(CountShared(), 1u);
  EXPECT_EQ(Register("all", memory, 20000).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  ASSERT_TRUE(Register("more", memory, 9).ok());
  EXPECT_EQ(Regions(""), 2);
  EXPECT_EQ(Regions("all"), 1);
  EXPECT_EQ(Regions("none"), -1);

  ExpectInRegion(plain, expected, 96);
  EXPECT_EQ(Bytes(memory, 9000, 480), expected.values().data());

  EXPECT_TRUE(Unregister("none").ok());
  EXPECT_TRUE(Unregister("all").ok());
  EXPECT_EQ(Regions(""), 1);
  EXPECT_TRUE(Unregister("").ok());
  EXPECT_EQ(CountShared(), 0u);
}

TEST_F(CudaMemory, NamesTheFieldOfAWrongRegistration) {
  SharedAllocation memory(64);
  const auto field_of = [](const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), kInvalid);
    return DetailsOf(status).bad_request.field_violations(0).field();
  };
  EXPECT_EQ(field_of(Register("", memory, 64)), "name");
  EXPECT_EQ(field_of(Register("a", memory, 65)), "byte_size");
  EXPECT_EQ(field_of(Register("a", memory, uint64_t{1} << 63)), "byte_size");
  EXPECT_EQ(field_of(Register("a", memory, 64, 1)), "device_id");
  EXPECT_EQ(field_of(Register("a", memory, 64, -1)), "device_id");
  EXPECT_EQ(field_of(Register("a", SharedAllocation(64, getpid()), 64)),
            "raw_handle");
  inference::CudaSharedMemoryRegisterRequest short_handle;
  short_handle.set_name("a");
  short_handle.set_raw_handle("short");
  EXPECT_EQ(field_of(Register(short_handle)), "raw_handle");
}

TEST_F(CudaMemory, SharesNamesAndLimitsWithSharedMemory) {
  const SharedMemory shared = Make(Name("x"), 64);
  SharedAllocation memory(64);
  ASSERT_TRUE(testing::Register(*oip_, "shared", shared.name(), 64).ok());
  EXPECT_EQ(Register("shared", memory, 64).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  for (size_t i = 1; i < Regions::kMaxOfClient; ++i) {
    ASSERT_TRUE(Register(StrCat(i), memory, 64).ok());
  }
  EXPECT_EQ(DetailsOf(Register("one more", memory, 64)).info.reason(),
            "SHARED_MEMORY_REGIONS");
  // Each method unregisters only one kind of memory.
  EXPECT_EQ(Regions("shared"), -1);
  EXPECT_TRUE(Unregister("shared").ok());
  EXPECT_EQ(testing::Register(*oip_, "shared", shared.name(), 64).error_code(),
            grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_TRUE(Unregister("").ok());
}

TEST(CudaMemoryServer, AnnouncesWhetherItIsSupported) {
  const auto extensions = [](const TestServer& server) {
    const auto stub = GRPCInferenceService::NewStub(server.Connect());
    const auto answer = CallUnary(*stub, &OipStub::ServerMetadata);
    EXPECT_TRUE(answer.status.ok());
    return std::ranges::count(answer.response.extensions(),
                              "cuda_shared_memory");
  };
  const auto capability = [](const TestServer& server) {
    return CallUnary(*server.Stub(), &v1::TopKService::Stub::GetCapabilities)
        .response.limits()
        .cuda_memory();
  };
  SharedAllocation memory(64);
  ServerConfig without_device = CudaConfig();
  without_device.backend = "cpu";
  for (const auto& [config, reason] :
       {std::pair{CudaConfig(), ""},
        std::pair{ServerConfig(), "CUDA_MEMORY_NOT_ALLOWED"},
        std::pair{without_device, "CUDA_MEMORY_NO_DEVICE"}}) {
    const TestServer server(config);
    const bool works = std::string_view(reason).empty();
    EXPECT_EQ(extensions(server), works ? 1 : 0);
    EXPECT_EQ(capability(server), works);
    if (works) continue;
    const v1::TopKRequest plain = Request(v1::DATA_TYPE_F32, {4}, 0, 2);
    v1::TopKRequest values = plain;
    *values.mutable_output()->mutable_cuda_values() = RegionOf(memory, 0, 8);
    v1::TopKRequest indices = plain;
    *indices.mutable_output()->mutable_cuda_indices() = RegionOf(memory, 0, 16);
    for (const auto& [request, field] :
         {std::pair{OnDevice(plain, 0, memory), "tensor.cuda_memory"},
          std::pair{values, "output.cuda_values"},
          std::pair{indices, "output.cuda_indices"}}) {
      const CallResult asked = Ask(server, request);
      EXPECT_EQ(asked.status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
      EXPECT_EQ(asked.reason(), reason);
      EXPECT_EQ(asked.field(), field);
    }
    const auto oip = GRPCInferenceService::NewStub(server.Connect());
    inference::CudaSharedMemoryRegisterRequest registered;
    registered.set_name("a");
    registered.set_raw_handle(memory.handle());
    EXPECT_EQ(DetailsOf(CallUnary(*oip, &OipStub::CudaSharedMemoryRegister,
                                  registered)
                            .status)
                  .info.reason(),
              reason);
    EXPECT_TRUE(
        CallUnary(*oip, &OipStub::CudaSharedMemoryUnregister).status.ok());
  }
}

}  // namespace
}  // namespace topk::testing
