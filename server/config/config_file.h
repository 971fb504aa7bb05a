// The config file.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

namespace topk {

/// A value that the config file sets, as texts like those of a flag.
struct FileValue {
  /// FILE:LINE:COLUMN: KEY, for messages.
  std::string source;
  /// Several if the value is an array.
  std::vector<std::string> texts;
};

/// Reads a TOML file whose keys are the names of the program's options. Throws
/// a CLI::FileError for a file that is not readable, and a CLI::ConfigError for
/// invalid TOML, an unknown key, and a value of another type than its option's.
std::map<const CLI::Option*, FileValue> ReadConfigFile(const CLI::App& app,
                                                       const std::string& path);

/// Returns the effective settings as TOML. Throws a CLI::ValidationError for a
/// value with control characters or of another encoding than UTF-8.
std::string WriteConfigFile(const CLI::App& app);

}  // namespace topk
