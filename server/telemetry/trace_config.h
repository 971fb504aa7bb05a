// Settings of the export of traces.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace topk {

/// Where spans are sent, and which calls have one.
struct TraceConfig {
  /// The collector: http://host:port or https://host:port; "" = no export.
  std::string endpoint;
  /// The authorities of an https collector, in PEM; "" = those of this machine.
  std::string authorities;
  /// Whether a call with a traceparent is sampled if its caller is.
  bool follow_parent = true;
  /// The share of the other traces that are sampled, 0 .. 1.
  double ratio = 1;
  /// The resource's attributes, e.g. service.name.
  std::map<std::string, std::string> resource;
  /// Variables that were ignored, and why.
  std::vector<std::string> warnings;
};

}  // namespace topk
