// A server's metrics, and Prometheus's text format, read strictly.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/test_server.h"

namespace topk::testing {

/// The settings of a server that has metrics.
inline ServerConfig WithMetrics() {
  ServerConfig config;
  config.metrics_listen = "127.0.0.1:0";
  return config;
}

/// Returns what such a server exposes now.
inline std::string ScrapedText(TestServer& server) {
  return HttpGet(server.server().side_addresses().at("metrics"), "/metrics");
}

/// The content of one scrape: the value of each series, by its name with its
/// labels as they are exposed.
struct Exposition {
  std::map<std::string, double> samples;
  /// counter, gauge, histogram or summary, by family.
  std::map<std::string, std::string> types;
};

/// Parses a scrape. Returns "", or the error: a malformed line, a family in two
/// places, a duplicate series, or a histogram whose buckets do not ascend to
/// its count.
std::string ReadExposition(const std::string& text, Exposition& to);

/// Scrapes such a server. A malformed text fails the test.
inline Exposition Scrape(TestServer& server) {
  Exposition exposition;
  EXPECT_EQ(ReadExposition(ScrapedText(server), exposition), "");
  return exposition;
}

/// Returns "", or the first counter or bucket that went down or went away.
std::string CheckMonotonic(const Exposition& before, const Exposition& after);

}  // namespace topk::testing
