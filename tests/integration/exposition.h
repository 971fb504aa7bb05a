// Scrapes a server's metrics and checks what Prometheus's serializer does not.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/test_server.h"

namespace topk::testing {

/// Returns settings for a server with metrics.
inline ServerConfig WithMetrics() {
  ServerConfig config;
  config.metrics_listen = "127.0.0.1:0";
  return config;
}

/// Returns the server's current metrics as text.
inline std::string ScrapedText(TestServer& server) {
  return HttpGet(server.server().side_addresses().at("metrics"), "/metrics");
}

/// The content of a scrape: the value of each series (name and labels).
struct Exposition {
  std::map<std::string, double> samples;
  /// Maps families to counter, gauge, histogram or summary.
  std::map<std::string, std::string> types;
};

/// Parses a scrape. Returns "" or an error: a family in two places, a duplicate
/// series, or a negative count. tests/system/deploy checks the syntax with
/// promtool.
std::string ReadExposition(const std::string& text, Exposition& to);

/// Scrapes the server. The test fails if there is an error.
inline Exposition Scrape(TestServer& server) {
  Exposition exposition;
  EXPECT_EQ(ReadExposition(ScrapedText(server), exposition), "");
  return exposition;
}

/// Scrapes the server. Returns the value of a series, or -1 if there is none.
inline double Value(TestServer& server, const std::string& series) {
  const Exposition scraped = Scrape(server);
  const auto found = scraped.samples.find(series);
  return found == scraped.samples.end() ? -1 : found->second;
}

/// Returns the first counter or bucket that decreased or disappeared, or "".
std::string CheckMonotonic(const Exposition& before, const Exposition& after);

}  // namespace topk::testing
