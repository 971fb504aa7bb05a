// Reads and writes the config file.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

namespace topk {

/// A value from the config file, as text in the format of a flag's value.
struct FileValue {
  /// "FILE:LINE:COLUMN: KEY", for error messages.
  std::string source;
  /// The value, or the elements of an array.
  std::vector<std::string> texts;
};

/// Reads a TOML file whose keys are the names of the program's options. Throws
/// CLI::FileError if the file cannot be read. Throws CLI::ConfigError for
/// invalid TOML, an unknown key, or a value of the wrong type.
std::map<const CLI::Option*, FileValue> ReadConfigFile(const CLI::App& app,
                                                       const std::string& path);

/// Returns the effective settings as TOML. Throws CLI::ValidationError if a
/// value contains control characters or is not valid UTF-8.
std::string WriteConfigFile(const CLI::App& app);

}  // namespace topk
