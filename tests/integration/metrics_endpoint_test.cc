// The HTTP endpoint for metrics.
#include "server/metrics_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "core/base/text.h"
#include "tests/integration/ask.h"
#include "tests/integration/exposition.h"
#include "tests/support/test_server.h"

namespace topk::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// An endpoint with one gauge, topk_a.
class MetricsOverHttp : public ::testing::Test {
 protected:
  MetricsOverHttp() {
    registry_->AddGauge("topk_a", "A", [] { return 1; });
    static spdlog::logger log("test");
    auto started = MetricsEndpoint::Start("127.0.0.1:0", registry_, log);
    EXPECT_TRUE(started.ok());
    endpoint_ = *std::move(started);
  }

  std::string Send(const std::string& line,
                   const std::vector<std::string>& headers = {}) {
    std::string request = line + " HTTP/1.1\r\nHost: localhost\r\n";
    for (const std::string& header : headers) request += header + "\r\n";
    return HttpExchange(endpoint_->address(), request + "\r\n");
  }

  // Returns the response to a scrape with an Accept header.
  std::string Accepting(const std::string& accept) {
    return Send("GET /metrics", {"Accept: " + accept});
  }

  const std::shared_ptr<MetricRegistry> registry_ =
      std::make_shared<MetricRegistry>();
  std::unique_ptr<MetricsEndpoint> endpoint_;
};

TEST_F(MetricsOverHttp, AnswersInTheTextFormat) {
  const std::string response = Send("GET /metrics");
  EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(response, HasSubstr("Content-Type: text/plain"));
  EXPECT_THAT(response,
              HasSubstr("# HELP topk_a A\n# TYPE topk_a gauge\ntopk_a 1\n"));
}

TEST_F(MetricsOverHttp, AnswersOnlyGetAndHeadOfItsPath) {
  for (const char* line : {"GET /", "GET /metric", "GET /etc/passwd",
                           "GET /../../etc/passwd", "POST /metric"}) {
    EXPECT_THAT(Send(line), StartsWith("HTTP/1.1 404 ")) << line;
  }
  for (const char* line : {"POST /metrics", "OPTIONS /metrics", "PUT /metrics",
                           "DELETE /metrics"}) {
    EXPECT_THAT(Send(line), StartsWith("HTTP/1.1 405 ")) << line;
  }
  EXPECT_THAT(Send("HEAD /metrics"),
              AllOf(StartsWith("HTTP/1.1 200 "), EndsWith("\r\n\r\n")));
  EXPECT_THAT(Send("GET /metrics?name=x"), EndsWith("\ntopk_a 1\n"));
}

TEST_F(MetricsOverHttp, SurvivesMalformedRequests) {
  for (const std::string& accept :
       {std::string("application/openmetrics-text;q=9e99999"),
        std::string(";;;q=,,=\"\\,*/*"), std::string(10'000, ','),
        "application/openmetrics-text;q=" + std::string(10'000, '0'),
        std::string("\xff%s%n")}) {
    EXPECT_THAT(Accepting(accept), EndsWith("\ntopk_a 1\n")) << accept.size();
  }
  // A request of more than 32 KiB.
  EXPECT_THAT(Accepting(std::string(100'000, 'a')),
              AnyOf("", StartsWith("HTTP/1.1 431 ")));
  // topk prints a hint for this error.
  EXPECT_THAT(
      Ask(endpoint_->address(), OnnxRequest({1, 2}, 1)).status.error_message(),
      HasSubstr("Trying to connect an http1.x server"));
}

// There are more idle connections than the endpoint keeps open.
TEST_F(MetricsOverHttp, AnswersDespiteIdleConnections) {
  std::vector<int> idle;
  for (int i = 0; i < 200; ++i) {
    idle.push_back(OpenSocketTo(endpoint_->address()));
  }
  EXPECT_TRUE(Eventually(
      [&] { return Send("GET /metrics").ends_with("\ntopk_a 1\n"); }));
  for (const int fd : idle) close(fd);
}

TEST_F(MetricsOverHttp, StopsWhileScrapersWaitOrReadNothing) {
  // The response is larger than any socket buffer.
  for (int i = 0; i < 1000; ++i) {
    registry_->AddGauge("topk_b", "B", [] { return 1; },
                        {{"label", std::string(20'000, 'x') + StrCat(i)}});
  }
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  std::vector<int> sockets;
  for (int i = 0; i < 2; ++i) {
    sockets.push_back(OpenSocketTo(endpoint_->address()));
    EXPECT_EQ(write(sockets[i], request.data(), request.size()),
              static_cast<ssize_t>(request.size()));
    char first = 0;
    EXPECT_EQ(read(sockets[i], &first, 1), 1) << "the response has begun";
  }
  for (int i = 0; i < 2; ++i) {
    sockets.push_back(OpenSocketTo(endpoint_->address()));
  }
  std::atomic<bool> stopped = false;
  std::thread scraper([&, address = endpoint_->address()] {
    while (!stopped) HttpExchange(address, request, /*seconds=*/1);
  });
  const auto start = std::chrono::steady_clock::now();
  endpoint_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(2));
  stopped = true;
  scraper.join();
  for (const int fd : sockets) close(fd);
}

}  // namespace
}  // namespace topk::testing
