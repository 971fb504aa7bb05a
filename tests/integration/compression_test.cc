// Requests that the client compresses. tests/system/hostile sends compressed
// messages that are damaged or too large.
#include <gtest/gtest.h>

#include "tests/integration/ask.h"
#include "tests/integration/oip.h"
#include "tests/support/oracle.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

// A channel that compresses all messages that shrink.
std::shared_ptr<grpc::Channel> ConnectWith(
    const TestServer& server, grpc_compression_algorithm algorithm) {
  grpc::ChannelArguments arguments;
  arguments.SetCompressionAlgorithm(algorithm);
  arguments.SetInt("test.connection", algorithm);  // not shared
  return grpc::CreateCustomChannel(
      server.target(), grpc::InsecureChannelCredentials(), arguments);
}

TEST(Compression, WorksWithEveryComputeMethod) {
  const TestServer server;
  std::vector<float> values(5000, 1.5F);
  values[3000] = 2;
  const v1::TopKRequest request = OnnxRequest(values, 3);
  const v1::TopKResponse expected = Oracle(request);
  v1::TopKRequestChunk data;
  data.set_data(request.tensor().data());
  for (const auto algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    const auto channel = ConnectWith(server, algorithm);
    const CallResult unary = Ask(*v1::TopKService::NewStub(channel), request);
    EXPECT_TRUE(unary.status.ok()) << unary.status.error_message();
    EXPECT_EQ(Comparable(unary.response), Comparable(expected));
    ManyCall many(channel);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(Comparable(many.Ask(request).response()), Comparable(expected));
    }
    EXPECT_TRUE(many.Finish().ok());
    StreamCall stream(channel);
    EXPECT_TRUE(stream->Write(HeaderOf(request)));
    EXPECT_TRUE(stream->Write(data));
    stream->WritesDone();
    v1::TopKResponseChunk chunk;
    EXPECT_TRUE(stream->Read(&chunk));
    EXPECT_EQ(Comparable(chunk.header()), Comparable(expected));
    EXPECT_TRUE(stream->Finish().ok());
    grpc::ClientContext context;
    ModelInferResponse inferred;
    const grpc::Status status =
        GRPCInferenceService::NewStub(channel)->ModelInfer(
            &context, Translate(request), &inferred);
    EXPECT_TRUE(status.ok()) << status.error_message();
    ExpectSame(inferred, expected);
  }
}

}  // namespace
}  // namespace topk::testing
