// Scrapes a server's metrics.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>

#include "tests/support/test_server.h"

namespace topk::testing {

inline ServerConfig WithMetrics() {
  ServerConfig config;
  config.metrics_listen = "127.0.0.1:0";
  return config;
}

inline std::string ScrapedText(TestServer& server) {
  return HttpGet(server.server().side_addresses().at("metrics"), "/metrics");
}

/// Returns the value of each series, e.g. "name{label=\"value\"}" or "name{}".
/// The test fails if a series occurs twice. tests/system/deploy checks the
/// format with promtool.
inline std::map<std::string, double> Scrape(TestServer& server) {
  std::map<std::string, double> samples;
  std::istringstream lines(ScrapedText(server));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const size_t space = line.rfind(' ');
    std::string series = line.substr(0, space);
    if (!series.ends_with('}')) series += "{}";
    EXPECT_TRUE(samples.emplace(series, std::stod(line.substr(space))).second)
        << line;
  }
  return samples;
}

/// Scrapes the server. Returns the value of a series, or -1 if there is none.
inline double Value(TestServer& server, const std::string& series) {
  const std::map<std::string, double> samples = Scrape(server);
  const auto found = samples.find(series);
  return found == samples.end() ? -1 : found->second;
}

}  // namespace topk::testing
