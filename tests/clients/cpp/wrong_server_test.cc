// The client library with servers that are wrong, slow or not serving.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <thread>

#include "client/topk_client.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/clients/cpp/fake_server.h"
#include "tests/support/test_server.h"

namespace topk {
namespace {

using testing::AnswerTo;
using testing::Eventually;
using testing::Fake;
using testing::FakeServer;
using testing::OnnxRequest;
using Many = grpc::ServerReaderWriter<v1::TopKResult, v1::TopKRequest>;
using Chunks =
    grpc::ServerReaderWriter<v1::TopKResponseChunk, v1::TopKRequestChunk>;
using std::chrono::seconds;
using std::chrono::steady_clock;

ClientOptions Options(const std::string& target) {
  return {.target = target, .deadline = seconds(20)};
}

template <class Message>
void ReadAll(grpc::internal::ReaderInterface<Message>& stream) {
  for (Message message; stream.Read(&message);) {
  }
}

Fake ManyOf(int answers, bool then_fail = false) {
  Fake fake;
  fake.many = [=](Many& stream) -> grpc::Status {
    ReadAll<v1::TopKRequest>(stream);
    v1::TopKResult result;
    *result.mutable_response() = AnswerTo(OnnxRequest({1}, 1));
    for (int i = 0; i < answers && stream.Write(result); ++i) {
    }
    if (then_fail) return {grpc::StatusCode::NOT_FOUND, "broken"};
    return grpc::Status::OK;
  };
  return fake;
}

std::vector<Result<v1::TopKResponse>> AskMany(const Fake& fake, size_t count) {
  const FakeServer server(fake);
  return Client(Options(server.target()))
      .ComputeTopKMany(
          std::vector<v1::TopKRequest>(count, OnnxRequest({1}, 1)));
}

TEST(WrongServer, RejectsTooManyResults) {
  // Endless ones too must end, and before the deadline.
  for (const int answers : {4, 1 << 30}) {
    const auto start = steady_clock::now();
    const auto results = AskMany(ManyOf(answers), 3);
    EXPECT_LT(steady_clock::now() - start, seconds(10));
    ASSERT_EQ(results.size(), 3u);
    for (const auto& result : results) {
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.status().reason, "BAD_ANSWER");
    }
  }
}

TEST(WrongServer, ReportsMissingResults) {
  for (const bool fails : {false, true}) {
    const auto results = AskMany(ManyOf(2, fails), 3);
    ASSERT_EQ(results.size(), 3u);
    EXPECT_TRUE(results[0].ok());
    EXPECT_TRUE(results[1].ok());
    ASSERT_FALSE(results[2].ok());
    EXPECT_EQ(results[2].status().code,
              fails ? Code::kNotFound : Code::kInternal);
    EXPECT_EQ(results[2].status().reason, fails ? "" : "BAD_ANSWER");
  }
}

TEST(WrongServer, RejectsEmptyResults) {
  Fake fake;
  fake.many = [](Many& stream) -> grpc::Status {
    stream.Write(v1::TopKResult());
    ReadAll<v1::TopKRequest>(stream);
    return grpc::Status::OK;
  };
  const auto results = AskMany(fake, 1);
  ASSERT_EQ(results.size(), 1u);
  ASSERT_FALSE(results[0].ok());
  EXPECT_EQ(results[0].status().reason, "BAD_ANSWER");
}

TEST(WrongServer, ManyWithoutRequestsIsEmpty) {
  EXPECT_TRUE(AskMany(ManyOf(0), 0).empty());
}

TEST(WrongServer, RejectsStreamsOutOfOrder) {
  v1::TopKResponseChunk header, values, empty;
  *header.mutable_header() = AnswerTo(OnnxRequest({1}, 1));
  values.set_values("abcd");
  using Answer = std::vector<v1::TopKResponseChunk>;
  for (const Answer& answer : {Answer{}, Answer{values}, Answer{header, header},
                               Answer{empty}, Answer{header, empty}}) {
    Fake fake;
    fake.stream = [&answer](Chunks& stream) -> grpc::Status {
      ReadAll<v1::TopKRequestChunk>(stream);
      for (const auto& chunk : answer) stream.Write(chunk);
      return grpc::Status::OK;
    };
    const FakeServer server(fake);
    const auto result =
        Client(Options(server.target())).StreamTopK(OnnxRequest({1}, 1), {});
    ASSERT_FALSE(result.ok()) << answer.size();
    EXPECT_EQ(result.status().reason, "BAD_ANSWER");
  }
}

TEST(WrongServer, DeadlinesEndCallsThatHang) {
  std::atomic<bool> go = false;
  Fake fake;
  fake.compute = [&go](auto&, auto&, auto&) -> grpc::Status {
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return grpc::Status::OK;
  };
  const FakeServer server(fake);
  CallOptions call;
  call.deadline = std::chrono::milliseconds(100);
  const auto start = steady_clock::now();
  const auto answer =
      Client(Options(server.target())).ComputeTopK(OnnxRequest({1}, 1), call);
  EXPECT_LT(steady_clock::now() - start, seconds(10));
  go = true;
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.status().code, Code::kDeadlineExceeded);
}

TEST(WrongServer, DoesNotRetryPermanentErrors) {
  for (const auto code :
       {grpc::StatusCode::INVALID_ARGUMENT,
        grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::INTERNAL}) {
    std::atomic<int> calls = 0;
    const FakeServer server({.compute = [&](grpc::ServerContext& context, auto&,
                                            auto&) -> grpc::Status {
      ++calls;
      context.AddTrailingMetadata("grpc-retry-pushback-ms", "-1");
      return {code, "no"};
    }});
    const auto answer =
        Client(Options(server.target())).ComputeTopK(OnnxRequest({1}, 1));
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(static_cast<int>(answer.status().code), code);
    EXPECT_EQ(calls, 1);
  }
}

// Returns the status of a server that has room after `delay` seconds.
grpc::Status FullFor(int64_t delay) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(delay);
  google::rpc::Status details;
  details.set_code(grpc::StatusCode::RESOURCE_EXHAUSTED);
  static_cast<void>(details.add_details()->PackFrom(retry));
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "full",
          details.SerializeAsString()};
}

TEST(WrongServer, ReturnsADelayBeyondTheDeadlineAtOnce) {
  const std::pair<int64_t, seconds> delays[] = {
      {30, seconds(30)},
      {int64_t{1} << 40, std::chrono::hours(24)},
      {std::numeric_limits<int64_t>::max(), std::chrono::hours(24)},
      {std::numeric_limits<int64_t>::min(), seconds(0)}};
  for (const auto& [told, delay] : delays) {
    std::atomic<int> calls = 0;
    const auto reject = [&calls, retry = told] {
      ++calls;
      return FullFor(retry);
    };
    Fake fake;
    fake.compute = [&](grpc::ServerContext& context, auto&, auto&) {
      context.AddTrailingMetadata("grpc-retry-pushback-ms", "30000");
      return reject();
    };
    fake.stream = [&](Chunks&) { return reject(); };
    fake.many = [&](Many&) { return reject(); };
    fake.capabilities = [&](auto&) { return reject(); };
    const FakeServer server(fake);
    const Client client(Options(server.target()));
    const auto start = steady_clock::now();
    const auto request = OnnxRequest({1}, 1);
    for (const Status& status :
         {client.ComputeTopK(request).status(),
          client.StreamTopK(request, {}).status(),
          client.ComputeTopKMany(std::vector{request})[0].status(),
          client.GetCapabilities().status()}) {
      EXPECT_EQ(status.code, Code::kResourceExhausted) << status.message;
      EXPECT_EQ(status.retry_after, delay);
      if (delay.count() > 0) {
        EXPECT_NE(status.message.find("ends after the deadline"),
                  std::string::npos)
            << status.message;
      }
    }
    EXPECT_LT(steady_clock::now() - start, seconds(10));
    EXPECT_EQ(calls, 4);
  }
}

// Each attempt at the capabilities takes seconds if the server is down.
TEST(WrongServer, ManyAskForTheLimitOnce) {
  std::atomic<int> calls = 0;
  Fake fake;
  fake.capabilities = [&](auto&) -> grpc::Status {
    ++calls;
    return {grpc::StatusCode::PERMISSION_DENIED, "not for you"};
  };
  const FakeServer server(fake);
  const auto results = Client(Options(server.target()))
                           .ComputeTopKMany(std::vector<v1::TopKRequest>(
                               3, OnnxRequest(std::vector<float>(20000), 1)));
  EXPECT_EQ(results.size(), 3u);
  EXPECT_EQ(calls, 1);
}

TEST(WrongServer, ObeysAPushback) {
  struct Case {
    const char* pushback;
    int calls;
    bool has_retry_info = false;
  };
  for (const auto& [pushback, expected, has_retry_info] :
       {Case{"1", 3}, Case{"-1", 1}, Case{"soon", 1}, Case{"", 1},
        Case{"99999999999999999999999", 1}, Case{"30000", 3, true},
        Case{"-1", 1, true}}) {
    std::atomic<int> calls = 0;
    Fake fake;
    fake.compute = [&, value = pushback, details = has_retry_info](
                       grpc::ServerContext& context, auto&,
                       auto&) -> grpc::Status {
      if (++calls == 3) return grpc::Status::OK;
      context.AddTrailingMetadata("grpc-retry-pushback-ms", value);
      if (details) return FullFor(1);
      return {grpc::StatusCode::UNAVAILABLE, "not now"};
    };
    const FakeServer server(fake);
    const auto answer =
        Client(Options(server.target())).ComputeTopK(OnnxRequest({1}, 1));
    EXPECT_EQ(calls, expected) << pushback;
    EXPECT_EQ(answer.ok(), expected == 3) << pushback;
    if (!answer.ok()) {
      EXPECT_GE(answer.status().retry_after.count(), 0);
    }
  }
}

TEST(WrongServer, AcceptsTheLongestDeadline) {
  const FakeServer server(
      {.compute = [](auto&, auto&, auto&) { return grpc::Status::OK; }});
  ClientOptions options = Options(server.target());
  options.deadline = std::chrono::milliseconds::max();
  const auto answer = Client(options).ComputeTopK(OnnxRequest({1}, 1));
  EXPECT_TRUE(answer.ok()) << answer.status().message;
}

TEST(Client, RequestsTheLimitOnceAndOnlyForLargeRequests) {
  std::atomic<int> asked = 0;
  std::atomic<size_t> largest = 0;
  Fake fake;
  fake.capabilities = [&](v1::Capabilities& capabilities) {
    ++asked;
    capabilities.mutable_limits()->set_max_message_bytes(1);  // no server's
    return grpc::Status::OK;
  };
  fake.compute = [](auto&, auto&, auto&) { return grpc::Status::OK; };
  fake.stream = [&](Chunks& stream) -> grpc::Status {
    for (v1::TopKRequestChunk chunk; stream.Read(&chunk);) {
      largest = std::max<size_t>(largest, chunk.ByteSizeLong());
    }
    v1::TopKResponseChunk header;
    *header.mutable_header() = AnswerTo(OnnxRequest({1}, 1));
    stream.Write(header);
    return grpc::Status::OK;
  };
  const FakeServer server(fake);
  const Client client(Options(server.target()));
  const std::vector<std::byte> tensor(size_t{1} << 16);
  const v1::TopKRequest header = OnnxRequest({1}, 1);
  const auto small = std::span(tensor).first(size_t{40} << 10);
  EXPECT_TRUE(client.ComputeTopK(header, small).ok());
  EXPECT_TRUE(client.StreamTopK(header, small).ok());
  EXPECT_EQ(asked, 0);
  largest = 0;
  for (int i = 0; i < 3; ++i) {
    const auto answer = client.ComputeTopK(header, tensor);
    EXPECT_TRUE(answer.ok()) << answer.status().message;
  }
  EXPECT_EQ(asked, 1);
  EXPECT_GT(largest, 512u);
  EXPECT_LE(largest, 1024u);
}

TEST(WrongServer, RetriesStreams) {
  std::atomic<int> calls = 0;
  std::atomic<size_t> bytes = 0;
  const FakeServer server({.stream = [&](Chunks& stream) -> grpc::Status {
    bytes = 0;
    for (v1::TopKRequestChunk chunk; stream.Read(&chunk);) {
      bytes += chunk.data().size();
    }
    if (++calls <= 2) return {grpc::StatusCode::UNAVAILABLE, "not now"};
    v1::TopKResponseChunk header;
    *header.mutable_header() = AnswerTo(OnnxRequest({1}, 1));
    stream.Write(header);
    return grpc::Status::OK;
  }});
  const std::vector<std::byte> tensor(size_t{8} << 20);
  const auto answer =
      Client(Options(server.target())).StreamTopK(OnnxRequest({1}, 1), tensor);
  ASSERT_TRUE(answer.ok()) << answer.status().message;
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(bytes, tensor.size());
}

TEST(WrongServer, ReportsAServerThatIsNotServing) {
  FakeServer server({});
  server.SetServing(false);
  const Client client(Options(server.target()));
  const Result<bool> serving = client.IsServing("topk.v1.TopKService");
  ASSERT_TRUE(serving.ok()) << serving.status().message;
  EXPECT_FALSE(*serving);
  server.SetServing(true);
  EXPECT_TRUE(*client.IsServing("topk.v1.TopKService"));
}

TEST(Client, SendsItsUserAgent) {
  std::mutex mutex;
  std::string seen;
  const FakeServer server(
      {.compute = [&](grpc::ServerContext& context, auto&, auto&) {
        const auto agent = context.client_metadata().find("user-agent");
        const std::lock_guard lock(mutex);
        if (agent != context.client_metadata().end()) {
          seen.assign(agent->second.data(), agent->second.size());
        }
        return grpc::Status::OK;
      }});
  ClientOptions options = Options(server.target());
  options.user_agent = "digits/7";
  ASSERT_TRUE(Client(options).ComputeTopK(OnnxRequest({1}, 1)).ok());
  const std::lock_guard lock(mutex);
  EXPECT_EQ(seen.substr(0, 9), "digits/7 ") << seen;
}

TEST(Client, AcceptsAListOfIpV6Addresses) {
  Fake fake;
  fake.compute = [](auto&, auto&, auto&) { return grpc::Status::OK; };
  const FakeServer server(fake, "[::1]");
  if (server.target().empty()) GTEST_SKIP() << "no IPv6 on this machine";
  const std::string list = server.target() + "," + server.target();
  const auto answer = Client(Options(list)).ComputeTopK(OnnxRequest({1}, 1));
  EXPECT_TRUE(answer.ok()) << answer.status().message;
}

TEST(Client, ManyLargeOnesDoNotBlockEachOther) {
  // More both ways than flow control lets stand: writing all before reading
  // any would hang.
  const testing::TestServer server;
  constexpr size_t kItems = 24;
  std::vector<float> values(size_t{1} << 18);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::vector<v1::TopKRequest> requests(
      kItems, OnnxRequest(values, static_cast<int64_t>(values.size())));
  ClientOptions options = Options(server.target());
  options.deadline = seconds(60);
  const auto results = Client(options).ComputeTopKMany(requests);
  ASSERT_EQ(results.size(), kItems);
  for (const auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status().message;
    EXPECT_EQ(result->values().data().size(), values.size() * sizeof(float));
  }
}

}  // namespace
}  // namespace topk
