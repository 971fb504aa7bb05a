// The format that a scraper receives, by the headers that it sends.
#include "server/telemetry/content_negotiation.h"

#include <gtest/gtest.h>

#include <string>

namespace topk {
namespace {

constexpr char kOpenMetrics[] = "application/openmetrics-text";

TEST(ContentNegotiation, PrometheusReceivesOpenMetrics) {
  // The headers of Prometheus 2.42, 2.53 and 3.5.
  EXPECT_TRUE(
      PrefersOpenMetrics("application/openmetrics-text;version=1.0.0,"
                         "application/openmetrics-text;version=0.0.1;q=0.75,"
                         "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
  EXPECT_TRUE(
      PrefersOpenMetrics("application/openmetrics-text;version=1.0.0;q=0.5,"
                         "application/openmetrics-text;version=0.0.1;q=0.4,"
                         "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"));
  EXPECT_TRUE(PrefersOpenMetrics(
      "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
      "application/openmetrics-text;version=0.0.1;q=0.5,"
      "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
      "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"));
  // With native histograms, and with the protocols set to text only.
  EXPECT_TRUE(PrefersOpenMetrics(
      "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
      "encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;"
      "q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
      "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"));
  EXPECT_FALSE(PrefersOpenMetrics("text/plain;version=0.0.4;q=0.5,*/*;q=0.2"));
}

TEST(ContentNegotiation, OnlyARequestForOpenMetricsIsOne) {
  for (const char* accept :
       {"", "*/*", "text/plain", "text/html,application/xhtml+xml,*/*;q=0.8",
        "application/*", "application/openmetrics-text;version=0.0.1",
        "application/openmetrics-text; version=2.0.0",
        "application/openmetrics-text;q=0",
        "application/openmetrics-text;q=0.000",
        "application/openmetrics-text-x", "x/application/openmetrics-text",
        "application/openmetrics-text;q=0.5,text/plain;q=0.501",
        "application/openmetrics-text;q=0.5,text/*", "version=1.0.0"}) {
    EXPECT_FALSE(PrefersOpenMetrics(accept)) << accept;
  }
  for (const char* accept :
       {"application/openmetrics-text", "Application/OpenMetrics-Text",
        " application/openmetrics-text ; version=1.0.0 ; charset=utf-8 ",
        "application/openmetrics-text;version=\"1.0.0\"",
        "application/openmetrics-text;VERSION=1.0.0;Q=0.001",
        "text/plain;q=0.5,\tapplication/openmetrics-text;q=0.5",
        "*/*,application/openmetrics-text",
        "text/plain;version=1.0.0,application/openmetrics-text;q=0.1"}) {
    EXPECT_TRUE(PrefersOpenMetrics(accept)) << accept;
  }
}

TEST(ContentNegotiation, MalformedElementsAreIgnored) {
  for (const char* q :
       {"", "=", "=2", "=1.001", "=-1", "=.5", "=0,5", "=0.1234", "=1e-1",
        "=nan", "=+1", "=0x1", "=\"", "=99999999999"}) {
    const std::string malformed = std::string(kOpenMetrics) + ";q" + q;
    EXPECT_FALSE(PrefersOpenMetrics(malformed)) << malformed;
    EXPECT_TRUE(PrefersOpenMetrics(malformed + ",," + kOpenMetrics))
        << malformed;
  }
  for (const std::string& accept :
       {std::string(100'000, ','), std::string(100'000, ';'),
        std::string(100'000, '='), std::string(100'000, '"'),
        std::string(100'000, ' '), std::string(100'000, '\xff'),
        kOpenMetrics + std::string(100'000, 'x')}) {
    EXPECT_FALSE(PrefersOpenMetrics(accept)) << accept.substr(0, 40);
    EXPECT_TRUE(PrefersOpenMetrics(accept + "," + kOpenMetrics))
        << accept.substr(0, 40);
  }
}

TEST(ContentNegotiation, GzipIsNamed) {
  for (const char* accept : {"gzip", "deflate, GZIP;q=0.5", "br,gzip"}) {
    EXPECT_TRUE(AcceptsGzip(accept)) << accept;
  }
  for (const char* accept : {"", "identity", "gzip;q=0", "x-gzip2", "*"}) {
    EXPECT_FALSE(AcceptsGzip(accept)) << accept;
  }
}

}  // namespace
}  // namespace topk
