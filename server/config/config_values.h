// Validators for the values of settings. Some also normalize values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace topk {

/// Accepts a gRPC listening address: host:port (IPv6 addresses in brackets) or
/// unix:path. Rewrites unix:///path as unix:/path.
CLI::Validator GrpcAddress();

/// Accepts host:port.
CLI::Validator PlainAddress();

/// Accepts the URL of a collector, http://host:port or https://host:port. Adds
/// the default port if there is none.
CLI::Validator Collector();

/// Checks the URL of a collector and adds the default port if there is none.
/// Returns "", or an error message if the URL is invalid.
std::string CheckCollector(std::string& url);

/// Accepts file permissions in octal.
CLI::Validator OctalMode();

/// Accepts a prefix for the names of POSIX shared memory objects.
CLI::Validator ObjectPrefix();

/// Accepts a duration in seconds or with a unit, and converts it to seconds.
CLI::Validator Seconds(double least, double most);

/// Accepts a number from 0 to 1.
CLI::Validator Fraction();

/// Accepts a number of events or bytes per second; 0 = no limit.
CLI::Validator Rate();

/// Accepts a number of bytes, with or without a unit: 65536, 64KiB, 1.5GiB.
/// Converts the value to an integer, rounded up.
CLI::Validator Bytes(int64_t least, int64_t most);

/// Accepts an integer, and rewrites it in canonical form; see CheckWhole().
CLI::Validator Whole(int64_t least, int64_t most);

}  // namespace topk
