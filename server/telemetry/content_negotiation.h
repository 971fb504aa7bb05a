// The formats that a scraper accepts, by its HTTP headers (RFC 9110, 12.5).
#pragma once

#include <string_view>

namespace topk {

/// Whether an Accept header asks for OpenMetrics 1.0, and does not prefer
/// Prometheus's text format. Malformed elements are ignored.
bool PrefersOpenMetrics(std::string_view accept);

/// Whether an Accept-Encoding header names gzip, and not with q=0.
bool AcceptsGzip(std::string_view accept_encoding);

}  // namespace topk
