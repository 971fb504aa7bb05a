// Streams whose server goes away, which the client itself sends again.
#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <atomic>

#include "client/topk_client.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/clients/cpp/fake_server.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using Many = grpc::ServerReaderWriter<v1::TopKResult, v1::TopKRequest>;
using Chunks =
    grpc::ServerReaderWriter<v1::TopKResponseChunk, v1::TopKRequestChunk>;

// The end of gRPC in a process may wait 10 s for a thread that still polls:
// it does not end between the tests.
[[maybe_unused]] const bool kKeepsGrpc = (grpc_init(), true);

const grpc::Status kGone(grpc::StatusCode::UNAVAILABLE, "gone");

ClientOptions OptionsOf(const FakeServer& server, int max_attempts) {
  return {.target = server.target(),
          .deadline = std::chrono::seconds(60),
          .max_attempts = max_attempts};
}

// Answers each request with its id, and ends the stream after a number of them.
class Quitter {
 public:
  explicit Quitter(int answers, const grpc::Status& end = kGone)
      : answers_(answers), end_(end) {}

  grpc::Status operator()(Many& stream) {
    ++calls;
    v1::TopKRequest request;
    for (int i = 0; stream.Read(&request); ++i) {
      if (i == answers_) return end_;
      v1::TopKResult result;
      *result.mutable_response() = AnswerTo(request);
      stream.Write(result);
    }
    return grpc::Status::OK;
  }

  std::atomic<int> calls = 0;

 private:
  const int answers_;
  const grpc::Status end_;
};

std::vector<Result<v1::TopKResponse>> AskMany(Quitter& quitter,
                                              int max_attempts) {
  const FakeServer server(
      {.many = [&](Many& stream) { return quitter(stream); }});
  std::vector<v1::TopKRequest> requests(8, OnnxRequest({1}, 1));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].set_request_id(std::to_string(i));
  }
  return Client(OptionsOf(server, max_attempts)).ComputeTopKMany(requests);
}

TEST(BrokenStream, ManyRetriesOnlyRequestsWithoutAResult) {
  // As a connection ends, and as streams of Envoy and HAProxy do.
  for (const auto code :
       {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::CANCELLED,
        grpc::StatusCode::INTERNAL, grpc::StatusCode::UNKNOWN}) {
    Quitter quitter(3, {code, "gone"});
    const auto results = AskMany(quitter, 4);
    EXPECT_EQ(quitter.calls, 3);  // 3, 3 and 2 answers
    ASSERT_EQ(results.size(), 8u);
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_TRUE(results[i].ok()) << results[i].status().message;
      EXPECT_EQ(results[i]->request_id(), std::to_string(i));
    }
  }
}

TEST(BrokenStream, ManyReturnsTheServersStatus) {
  google::rpc::ErrorInfo info;
  info.set_reason("BROKEN");
  google::rpc::Status status;
  status.set_code(grpc::StatusCode::INTERNAL);
  static_cast<void>(status.add_details()->PackFrom(info));
  for (const grpc::Status& end :
       {grpc::Status(grpc::StatusCode::NOT_FOUND, "no reason"),
        grpc::Status(grpc::StatusCode::INTERNAL, "a reason",
                     status.SerializeAsString())}) {
    Quitter quitter(3, end);
    const auto results = AskMany(quitter, 4);
    EXPECT_EQ(quitter.calls, 1);
    ASSERT_EQ(results.size(), 8u);
    EXPECT_TRUE(results[2].ok());
    EXPECT_EQ(static_cast<int>(results[3].status().code), end.error_code());
  }
}

TEST(BrokenStream, ManyMakesAtMostMaxAttempts) {
  for (const int attempts : {1, 2}) {
    Quitter quitter(3);
    const auto results = AskMany(quitter, attempts);
    EXPECT_EQ(quitter.calls, attempts);
    ASSERT_EQ(results.size(), 8u);
    EXPECT_TRUE(results[static_cast<size_t>(attempts) * 3 - 1].ok());
    EXPECT_EQ(results.back().status().code, Code::kUnavailable);
  }
}

TEST(BrokenStream, EndWithoutStatusIsUnavailable) {
  Quitter quitter(3, {grpc::StatusCode::UNKNOWN, "gone"});
  EXPECT_EQ(AskMany(quitter, 1).back().status().code, Code::kUnavailable);
}

TEST(BrokenStream, RetriesACallThatEndsWithoutStatus) {
  std::atomic<int> calls = 0;
  Fake fake;
  fake.compute = [&](auto&, auto&, auto&) {
    return ++calls % 3 == 0 ? grpc::Status::OK
                            : grpc::Status(grpc::StatusCode::UNKNOWN, "gone");
  };
  const FakeServer server(fake);
  const auto answer =
      Client(OptionsOf(server, 4)).ComputeTopK(OnnxRequest({1}, 1));
  EXPECT_TRUE(answer.ok());
  EXPECT_EQ(calls, 3);
  const auto last =
      Client(OptionsOf(server, 2)).ComputeTopK(OnnxRequest({1}, 1));
  EXPECT_EQ(last.status().code, Code::kUnavailable);
  EXPECT_EQ(calls, 5);
}

TEST(BrokenStream, RetriesRejectionsOnlyWithARetryDelay) {
  for (const bool told : {false, true}) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_nanos(200'000'000);
    google::rpc::Status status;
    status.set_code(grpc::StatusCode::RESOURCE_EXHAUSTED);
    if (told) {
      ASSERT_TRUE(status.add_details()->PackFrom(retry));
    }
    std::atomic<int> calls = 0;
    const FakeServer server({.stream = [&](Chunks& stream) {
      if (++calls == 1) {
        return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full",
                            status.SerializeAsString());
      }
      v1::TopKResponseChunk answer;
      *answer.mutable_header() = AnswerTo(OnnxRequest({1}, 1));
      stream.Write(answer);
      return grpc::Status::OK;
    }});
    const auto start = std::chrono::steady_clock::now();
    const auto answer =
        Client(OptionsOf(server, 4)).StreamTopK(OnnxRequest({1}, 1), {});
    EXPECT_EQ(answer.ok(), told);
    EXPECT_EQ(calls, told ? 2 : 1);
    EXPECT_GE(std::chrono::steady_clock::now() - start,
              std::chrono::milliseconds(told ? 200 : 0));
  }
}

TEST(BrokenStream, RetriesATensorFromItsStart) {
  struct Case {
    size_t bytes;
    bool answered;  // before the server goes away
  };
  for (const auto& [bytes, answered] :
       {Case{4, true}, Case{size_t{70} << 20, false}}) {
    std::atomic<int> calls = 0;
    std::atomic<size_t> received = 0;
    v1::TopKRequest header = OnnxRequest({1}, 1);
    header.set_request_id("the answer");
    const FakeServer server({.stream = [&, answers = answered](Chunks& stream) {
      const bool goes = ++calls == 1;
      received = 0;
      v1::TopKRequestChunk chunk;
      while (stream.Read(&chunk)) received += chunk.data().size();
      v1::TopKResponseChunk answer;
      *answer.mutable_header() = AnswerTo(header);
      if (answers || !goes) stream.Write(answer);
      return goes ? kGone : grpc::Status::OK;
    }});
    const std::vector<std::byte> tensor(bytes);
    const auto once = Client(OptionsOf(server, 1)).StreamTopK(header, tensor);
    EXPECT_EQ(once.status().code, Code::kUnavailable);
    EXPECT_EQ(calls, 1);
    calls = 0;
    const auto twice = Client(OptionsOf(server, 4)).StreamTopK(header, tensor);
    ASSERT_TRUE(twice.ok()) << twice.status().message;
    EXPECT_EQ(twice->request_id(), "the answer");
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(received, bytes);
  }
}

}  // namespace
}  // namespace topk::testing
