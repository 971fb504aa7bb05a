// Flags, environment variables and the config file.
#include "server/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "core/base/text.h"
#include "tests/integration/subprocess.h"

namespace topk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

struct Read {
  CommandLine line;
  std::string out;
  std::string error;
};

Read ReadWords(std::vector<const char*> words) {
  words.insert(words.begin(), "topkd");
  CaptureStdout();
  CaptureStderr();
  Read read;
  read.line = ReadCommandLine(static_cast<int>(words.size()), words.data());
  read.out = GetCapturedStdout();
  // Threads of earlier tests may log too, e.g. "E1125 04:05:23.32 ...".
  read.error = std::regex_replace(
      GetCapturedStderr(), std::regex("[EWI][0-9]{4} [0-9:.]+ [^\\n]*\\n"), "");
  return read;
}

// Sets an environment variable for a scope.
class Variable {
 public:
  Variable(std::string name, const std::string& value)
      : name_(std::move(name)) {
    setenv(name_.c_str(), value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_.c_str()); }

 private:
  const std::string name_;
};

class ConfigFile : public ::testing::Test {
 protected:
  // Replaces the file and reads it.
  Read ReadText(const std::string& text) const {
    std::ofstream(file_) << text;
    return ReadWords({"--config", file_.c_str()});
  }

  const TemporaryFolder folder_;
  const std::string file_ = folder_.File("topkd.toml");
};

TEST(Config, TheFlagOfTheCollectorPrecedesOpenTelemetrysVariable) {
  const Variable of_all("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a");
  EXPECT_EQ(ReadWords({}).line.server.traces.endpoint, "http://a:4317");
  for (const char* url : {"https://b:1", "HTTPS://b:1", "Https://b:1"}) {
    EXPECT_EQ(ReadWords({"--otlp-endpoint", url}).line.server.traces.endpoint,
              "https://b:1");
  }
  const Variable own("TOPKD_OTLP_ENDPOINT", "http://c");
  EXPECT_EQ(ReadWords({}).line.server.traces.endpoint, "http://c:4317");
  const Read wrong = ReadWords({"--otlp-endpoint", "b:1"});
  EXPECT_EQ(wrong.line.exit_code, 2);
  EXPECT_THAT(wrong.error,
              HasSubstr("--otlp-endpoint: \"b:1\" is not http://"));
}

struct Setting {
  std::string flag;
  std::string value;
  /// The expected line in the printed configuration.
  const char* line;
};

// A setting is printed with the same value whether it comes from a flag, an
// environment variable or the printed file.
TEST_F(ConfigFile, ReadsAndPrintsSettings) {
  const Setting settings[] = {
      {"--drain-timeout", "2", "drain-timeout = 2"},
      {"--drain-timeout", "1.5s", "drain-timeout = 1.5"},
      {"--slow-request", "500ms", "slow-request = 0.5"},
      {"--max-connection-idle", "2m", "max-connection-idle = 120"},
      {"--max-connection-age", "1234567.875",
       "max-connection-age = 1234567.875"},
      {"--handshake-timeout", "500ms", "handshake-timeout = 0.5"},
      {"--max-inflight-bytes", "65536", "max-inflight-bytes = 65536"},
      {"--max-inflight-bytes", "0", "max-inflight-bytes = 0"},
      {"--max-inflight-bytes", "010", "max-inflight-bytes = 10"},
      {"--max-inflight-bytes", "64KiB", "max-inflight-bytes = 65536"},
      {"--max-inflight-bytes", "1.5 gib", "max-inflight-bytes = 1610612736"},
      {"--max-inflight-bytes", "2M", "max-inflight-bytes = 2097152"},
      {"--max-inflight-bytes", "3kb", "max-inflight-bytes = 3072"},
      {"--max-inflight-bytes", "7B", "max-inflight-bytes = 7"},
      {"--max-inflight-bytes", "0.1KiB", "max-inflight-bytes = 103"},
      {"--max-inflight-bytes", "7EiB",
       "max-inflight-bytes = 8070450532247928832"},
      {"--max-inflight-bytes", "9223372036854775807",
       "max-inflight-bytes = 9223372036854775807"},
      {"--client-ipv6-prefix", "056", "client-ipv6-prefix = 56"},
      {"--client-bytes-per-second", "1e6", "client-bytes-per-second = 1e+06"},
      {"--access-log-sample", "0.25", "access-log-sample = 0.25"},
      {"--listen", "unix:///run/s,[::1]:0",
       "listen = [ 'unix:/run/s', '[::1]:0' ]"},
      {"--unix-socket-mode", "0660", "unix-socket-mode = '0660'"},
      {"--allow-shared-memory", "true", "allow-shared-memory = true"},
      {"--shared-memory-prefix", "/mine", "shared-memory-prefix = '/mine'"},
      {"--tls-allowed-san", "a.example,spiffe://b",
       "tls-allowed-san = [ 'a.example', 'spiffe://b' ]"},
      {"--admin-listen", "127.0.0.1:0", "admin-listen = '127.0.0.1:0'"},
      {"--metrics-listen", "", "metrics-listen = ''"},
  };
  for (const Setting& setting : settings) {
    SCOPED_TRACE(setting.line);
    const std::string line = StrCat(setting.line, "\n");
    const auto expect_line = [&](const Read& read) {
      EXPECT_EQ(read.error, "");
      EXPECT_THAT(read.line.settings, HasSubstr(line));
    };
    std::vector<const char*> words = {setting.flag.c_str()};
    if (setting.value != "true") words.push_back(setting.value.c_str());
    const Read read = ReadWords(words);
    expect_line(read);
    expect_line(ReadText(read.line.settings));
    std::string name = StrCat("TOPKD_", setting.flag.substr(2));
    for (char& c : name) c = c == '-' ? '_' : static_cast<char>(toupper(c));
    const Variable variable(name, setting.value);
    expect_line(ReadWords({}));
  }
  EXPECT_THAT(
      ReadWords({"--listen", "a:1", "--listen", "b:2"}).line.server.listen,
      ElementsAre("a:1", "b:2"));
  for (const char* value : {"a\nb", "a\nthreads=1", "\x1b", "\xff", "\u202e"}) {
    EXPECT_THAT(ReadWords({"--ready-file", value}).error,
                HasSubstr("has control characters or is not UTF-8\n"));
  }
}

TEST(Config, FillsTheServersSettings) {
  const Read read =
      ReadWords({"--max-connection-age", "1.5s", "--max-concurrent-streams",
                 "7", "--tls-cert", "c", "--tls-key", "k", "--tls-client-ca",
                 "a", "--auth-tokens-file", "t", "--health-listen", "[::1]:0",
                 "--unix-socket-mode", "666", "--max-rank", "010"});
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.line.action, CommandLine::Action::kServe);
  const ServerConfig& server = read.line.server;
  EXPECT_EQ(server.connections.max_connection_age, 1.5);
  EXPECT_EQ(server.connections.max_concurrent_streams, 7);
  const SecurityConfig& security = server.security;
  EXPECT_EQ(security.tls_cert + security.tls_key + security.tls_client_ca +
                security.auth_tokens_file,
            "ckat");
  EXPECT_EQ(server.health_listen, "[::1]:0");
  EXPECT_EQ(server.unix_socket_mode, 0666u);
  EXPECT_EQ(server.max_rank, 10);
  EXPECT_FALSE(ReadWords({}).line.server.security.tls());
  EXPECT_EQ(ReadWords({"hash-token"}).line.exit_code, 2);
  EXPECT_EQ(ReadWords({"hash-token", "alice"}).line.token_name, "alice");
}

TEST_F(ConfigFile, FlagsPrecedeVariablesAndVariablesTheFile) {
  std::ofstream(file_) << "threads = 1\nmax-elements = 1\nlog-level = 'debug'\n"
                          "listen = ['127.0.0.1:1', 'unix:/a']\n";
  const Variable threads("TOPKD_THREADS", "2");
  const Variable elements("TOPKD_MAX_ELEMENTS", "2");
  const Read read =
      ReadWords({"--config", file_.c_str(), "--max-elements", "3"});
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.line.server.max_elements, 3);
  EXPECT_EQ(read.line.server.threads, 2);
  EXPECT_EQ(read.line.server.log_level, "debug");
  EXPECT_THAT(read.line.server.listen, ElementsAre("127.0.0.1:1", "unix:/a"));
}

TEST_F(ConfigFile, ReadsTheFileThatAVariableNames) {
  std::ofstream(file_) << "threads = 5\n";
  {
    const Variable config("TOPKD_CONFIG", file_);
    EXPECT_EQ(ReadWords({}).line.server.threads, 5);
  }
  const Variable config("TOPKD_CONFIG", folder_.File("absent"));
  const Read read = ReadWords({});
  EXPECT_EQ(read.line.exit_code, 2);
  EXPECT_THAT(read.error, HasSubstr("absent"));
}

TEST_F(ConfigFile, ReadsTomlOfAllForms) {
  for (const char* text : {
           "listen = ['a:1', 'b:2']\nthreads = 1\n",
           "\xEF\xBB\xBFlisten = [\n  'a:1',\n  'b:2'\n]\nthreads = 1\n",
           "listen =[  # all\n'a:1',  # one\n# none\n\n'b:2']\nthreads=0x1",
           "listen=[\r\n'a:1',\r\n'b:2',\r\n]\r\nthreads=1\r\n",
           "\"listen\" = 'a:1,b:2'\nthreads = \"1\"",
       }) {
    const Read read = ReadText(text);
    EXPECT_EQ(read.error, "") << text;
    EXPECT_THAT(read.line.server.listen, ElementsAre("a:1", "b:2")) << text;
    EXPECT_EQ(read.line.server.threads, 1) << text;
  }
  const ServerConfig config =
      ReadText(
          "client-bytes-per-second = 1e6\ndrain-delay = 0.5\n"
          "drain-timeout = '500ms'\nmax-inflight-bytes='1KiB'\n"
          "unix-socket-mode = '0660'\n")
          .line.server;
  EXPECT_EQ(config.security.client_bytes_per_second, 1e6);
  EXPECT_EQ(config.drain_delay_seconds, 0.5);
  EXPECT_EQ(config.drain_timeout_seconds, 0.5);
  EXPECT_EQ(config.max_inflight_bytes, 1024);
  EXPECT_EQ(config.unix_socket_mode, 0660u);
}

TEST_F(ConfigFile, NamesThePlaceInTheFileThatIsWrong) {
  for (const auto& [text, error] :
       std::initializer_list<std::pair<std::string, const char*>>{
           // Invalid TOML.
           {"threads = 1\n x # y\n", ":2:4: "},
           {"threads = x\n", ":1:11: "},
           {"unix-socket-mode = 0660\n", ":1:24: "},
           {"ready-file = '\xff'\n", ":1:14: "},
           {"ready-file = '\x01'\n", ":1:15: "},
           {"threads = 1\nlisten = 'a:1'\nthreads = 2\n", ":3:11: "},
           // Unknown settings.
           {"bogus = 1\n", ":1:1: unknown key \"bogus\"\n"},
           {"[server]\nthreads = 1\n", ":1:2: unknown key \"server\"\n"},
           {"a.threads = 1\n", ":1:1: unknown key \"a\"\n"},
           {"threads = 1\ncheck-config = true\n",
            ":2:1: unknown key \"check-config\"\n"},
           // Wrong type.
           {"allow-shared-memory = ''\n",
            ":1:23: allow-shared-memory: \"''\" is not true or false"},
           {"ready-file = 5\n", ":1:14: ready-file: \"5\" is not a string\n"},
           {"threads = [1, 2]\n", ":1:11: threads: an array is not a number"},
           {"drain-delay = 1979-05-27\n",
            ":1:15: drain-delay: \"1979-05-27\" is not a number"},
           {"[threads]\n", ": threads: a table is not a number"},
           {"listen = ['a:1',\n ['b:1']]\n",
            ":2:2: listen: an array is not a string\n"},
           {"listen = []\n", ":1:10: listen: the array is empty\n"},
           // Right type, but invalid value.
           {"\nthreads = 'x'\n", ":2:11: threads: \"x\" is not a whole number"},
           {"ready-file = 'a'\nthreads = -1\n",
            ":2:11: threads: \"-1\" is not a whole number"},
           {"log-level = \"loud\"\n",
            ":1:13: log-level: \"loud\" is not one of trace, debug,"},
           {"listen = [\"127.0.0.1:0\", \"a\"]\n",
            ":1:10: listen: \"a\" is not host:port"},
           {"listen = ','\n", ":1:10: listen: the value is empty\n"},
           {"ready-file = \"a\\u0000\"\n",
            ":1:14: ready-file: \"a?\" has control characters"},
       }) {
    const Read read = ReadText(text);
    EXPECT_EQ(read.line.action, CommandLine::Action::kExit) << text;
    EXPECT_EQ(read.line.exit_code, 2) << text;
    EXPECT_THAT(read.error, StartsWith(StrCat("topkd: ", file_, ":"))) << text;
    EXPECT_THAT(read.error, HasSubstr(error)) << text;
    EXPECT_EQ(std::ranges::count(read.error, '\n'), 2) << text;
  }
  const Variable level("TOPKD_LOG_LEVEL", "loud");
  EXPECT_THAT(ReadWords({}).error,
              HasSubstr("topkd: TOPKD_LOG_LEVEL: \"loud\" is not one of "));
  EXPECT_THAT(ReadText("log-level = \"quiet\"\n").error,
              HasSubstr("topkd: TOPKD_LOG_LEVEL: \"loud\""));
  EXPECT_THAT(
      ReadWords({"--config", file_.c_str(), "--log-level", "low"}).error,
      HasSubstr("topkd: --log-level: \"low\""));
}

TEST(Config, NamesMissingAndRepeatedValues) {
  EXPECT_THAT(ReadWords({"--threads"}).error,
              HasSubstr("topkd: --threads: the value is missing\n"));
  EXPECT_THAT(ReadWords({"--threads", "1", "--threads=2"}).error,
              HasSubstr("topkd: --threads: more than one value\n"));
  EXPECT_THAT(
      ReadWords({"--config", "/does/not/exist"}).error,
      HasSubstr("topkd: --config: cannot read /does/not/exist: No such"));
}

TEST(Config, ReadsRegularFilesOfAMebibyteOnly) {
  const TemporaryFolder folder;
  const std::string pipe = folder.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string large = folder.File("large");
  std::ofstream(large) << std::string((1 << 20) + 1, '\0');
  const std::string memory = "/proc/self/mem";
  const std::string zero = "/dev/zero";
  const std::string folder_path = folder.File("");
  for (const auto& [path, rule] : {
           std::pair(pipe, "not a regular file"),
           std::pair(zero, "not a regular file"),
           std::pair(folder_path, "not a regular file"),
           std::pair(large, "larger than 1 MiB"),
           std::pair(memory, "Input/output error"),
       }) {
    const std::string error = StrCat("cannot read ", path, ": ", rule, "\n");
    const Read read = ReadWords({"--config", path.c_str()});
    EXPECT_EQ(read.line.exit_code, 2);
    EXPECT_THAT(read.error, HasSubstr("topkd: --config: " + error));
    const Variable variable("TOPKD_CONFIG", path);
    EXPECT_EQ(ReadWords({}).line.exit_code, 2);
    EXPECT_THAT(ReadWords({}).error,
                HasSubstr("topkd: TOPKD_CONFIG: " + error));
  }
}

TEST_F(ConfigFile, RejectsDeepAndLargeTables) {
  const auto repeated = [](std::string_view text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  for (const auto& [text, error] : {
           std::pair("threads = " + repeated("[", 1'000'000), ":1:"),
           std::pair("listen = " + repeated("{a=", 300'000), ":1:"),
           std::pair("a" + repeated(".a", 500'000) + " = 1", " dots\n"),
           std::pair("[a" + repeated(".a", 500'000) + "]", " dots\n"),
           std::pair("a" + repeated(".a", 3'000) + " = 1", ":1:"),
           std::pair("threads = 0\n" + repeated("[[a]]\n", 150'000), ":2:"),
           std::pair("threads = " + repeated("1", 1'000'000), ":1:"),
           std::pair(repeated("\"", 1'000'000), ":1:"),
       }) {
    const Read read = ReadText(text);
    EXPECT_EQ(read.line.exit_code, 2);
    EXPECT_THAT(read.error, HasSubstr(error));
    EXPECT_LT(read.error.size(), 1000u);
  }
}

TEST(Config, RejectsAnEmptyValueOfASwitch) {
  const Read read = ReadWords({"--allow-shared-memory="});
  EXPECT_EQ(read.line.exit_code, 2);
  EXPECT_THAT(read.error, HasSubstr(": the value is empty\n"));
  EXPECT_TRUE(
      ReadWords({"--allow-shared-memory=on"}).line.server.allow_shared_memory);
}

TEST(Config, AnEmptyValueDoesNotUseUpTheNextFlag) {
  const CommandLine line =
      ReadWords({"--ready-file=", "--auth-tokens-file=tokens"}).line;
  EXPECT_EQ(line.server.ready_file, "");
  EXPECT_EQ(line.server.security.auth_tokens_file, "tokens");
}

TEST_F(ConfigFile, RejectsAnEmptyNameOfTheFile) {
  EXPECT_EQ(ReadWords({"--config", ""}).line.exit_code, 2);
  EXPECT_THAT(ReadWords({"--config", ""}).error,
              HasSubstr("topkd: --config: the value is empty\n"));
  EXPECT_EQ(ReadWords({"--config="}).line.exit_code, 2);
  const Variable variable("TOPKD_CONFIG", "");
  EXPECT_THAT(ReadWords({}).error,
              HasSubstr("topkd: TOPKD_CONFIG: the value is empty\n"));
  EXPECT_EQ(ReadText("threads = 3\n").line.server.threads, 3);
}

TEST(Config, ErrorsAreShortAndPlain) {
  const std::string hostile =
      "\x1b[2J\u202e\u009b\n\xff" + std::string(100'000, 'x');
  for (const char* flag :
       {"--listen", "--metrics-listen", "--health-listen", "--admin-listen",
        "--unix-socket-mode", "--access-log-sample", "--drain-timeout",
        "--threads", "--backend", "--shared-memory-prefix",
        "--client-bytes-per-second", "--tls-allowed-san", "--config"}) {
    const Read read = ReadWords({flag, hostile.c_str()});
    EXPECT_EQ(read.line.exit_code, 2) << flag;
    EXPECT_THAT(read.error, HasSubstr(flag));
    EXPECT_LT(read.error.size(), 20'000u) << flag;
    EXPECT_EQ(std::ranges::count(read.error, '\n'), 2) << flag;
    EXPECT_EQ(read.error.find_first_of("\x1b\xe2\xc2\xff"), std::string::npos)
        << flag;
  }
  const Variable variable("TOPKD_\x1b" + std::string(1000, 'x'), "");
  EXPECT_THAT(ReadWords({}).error, HasSubstr("topkd: \"TOPKD_?xxx"));
  EXPECT_LT(ReadWords({}).error.size(), 200u);
}

TEST(Config, RejectsEmptySecurityVariables) {
  for (const char* name :
       {"TOPKD_TLS_CERT", "TOPKD_TLS_KEY", "TOPKD_TLS_CLIENT_CA",
        "TOPKD_TLS_CLIENT_CRL", "TOPKD_TLS_ALLOWED_SAN",
        "TOPKD_AUTH_TOKENS_FILE", "TOPKD_CLIENT_IPV6_PREFIX",
        "TOPKD_CLIENT_REQUESTS_PER_SECOND", "TOPKD_CLIENT_BYTES_PER_SECOND"}) {
    const Variable variable(name, "");
    const Read read = ReadWords({});
    EXPECT_EQ(read.line.exit_code, 2) << name;
    EXPECT_THAT(read.error,
                HasSubstr(StrCat("topkd: ", name, ": the value is empty\n")));
  }
  const Variable overridden("TOPKD_TLS_CLIENT_CA", "");
  EXPECT_EQ(ReadWords({"--tls-client-ca", "ca.pem"}).error, "");
}

TEST(Config, WrongSettingsAreUsageErrorsThatNameThem) {
  for (const auto& [flag, values] :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"--bogus", "1"},
           {"--threads", "x|-1|4294967296"},
           {"--listen",
            "nowhere|127.0.0.1:65536|unix:|a "
            "b:0|unix://|unix://run/s|unix:/"
            "a%20b|unix-abstract:s|unix-abstract:s:1|::1:0|vsock:1:2"},
           {"--metrics-listen",
            "unix:/a|46010,127.0.0.1:46011|127.0.0.1:0,127.0.0.1:0"},
           {"--health-listen", "a:0,b:0|nowhere"},
           {"--max-message-bytes", "|2147483648|0"},
           {"--max-output-bytes", "2147483647"},
           {"--max-elements", "1e30|9223372036854775808|0x10"},
           {"--drain-timeout", "nan|-1|3 days|inf|1e400|-0.001|1e-320"},
           {"--max-connection-idle", "1e-300"},
           {"--slow-request", "1e-9ms|nans"},
           {"--access-log-sample", "inf|1.1|0.5x"},
           {"--tls-cert", "|"},
           {"--tls-allowed-san", "a b"},
           {"--client-requests-per-second", "1e-300|inf"},
           {"--client-bytes-per-second", "4.9e-324|1e16"},
           {"--max-inflight-bytes",
            "8EiB|9223372036854775808|99999999999999999999|-1|-0.5|nan|inf|GiB|"
            "1XB|1KiBB|1e3"},
           {"--max-inflight-calls", "1.5"},
           {"--admin-listen", "unix-abstract:s:1"},
           {"--keepalive-time", "0"},
           {"--max-connection-age", "99999m"},
           {"--max-concurrent-streams", "0"},
           {"--max-metadata-bytes", "100"},
           {"--unix-socket-mode", "0680|1777"},
           {"--shared-memory-prefix", "|topk|/a/b"},
           {"--log-level", "loud"},
           {"--log-format", "xml"}}) {
    std::istringstream list(values);
    for (std::string value; std::getline(list, value, '|');) {
      SCOPED_TRACE(StrCat(flag, " ", value));
      const Read read = ReadWords({flag, value.c_str()});
      EXPECT_EQ(read.line.action, CommandLine::Action::kExit);
      EXPECT_EQ(read.line.exit_code, 2);
      EXPECT_THAT(read.error, HasSubstr("topkd: "));
      EXPECT_THAT(read.error, HasSubstr(flag));
      EXPECT_EQ(read.out, "");
    }
  }
}

TEST_F(ConfigFile, ReportsErrorsInTheFormatOfTheLog) {
  const auto message = [](const std::vector<const char*>& words) {
    const std::string text = ReadWords(words).error;
    const auto line = nlohmann::json::parse(text, nullptr, false);
    EXPECT_TRUE(line.is_object() && text.ends_with("}\n")) << text;
    return line.is_object()
               ? line.value("level", "") + ": " + line.value("msg", "")
               : text;
  };
  const std::string threads =
      "critical: --threads: \"x\" is not a whole number in the range of 0 to "
      "4096";
  EXPECT_EQ(message({"--log-format", "json", "--threads", "x"}), threads);
  EXPECT_EQ(message({"--threads", "x", "--log-format=json"}), threads);
  EXPECT_THAT(message({"--log-format", "json", "--threads"}),
              HasSubstr("--threads: the value is missing"));
  EXPECT_THAT(message({"--log-format", "json", "--no-such-flag"}),
              HasSubstr("unknown argument"));
  std::ofstream(file_) << "any = 1\nlog-format = 'json'\n";
  EXPECT_THAT(message({"--config", file_.c_str()}),
              HasSubstr("unknown key \"any\""));
  EXPECT_THAT(
      ReadWords({"--config", file_.c_str(), "--log-format", "text"}).error,
      StartsWith("topkd: "));
  const Variable variable("TOPKD_LOG_FORMAT", "json");
  EXPECT_EQ(message({"--threads", "x"}), threads);
  EXPECT_THAT(ReadWords({"--log-format", "xml"}).error, StartsWith("topkd: "));
}

TEST(Config, RejectsInvalidAndUnknownVariables) {
  {
    const Variable threads("TOPKD_THREADS", "many");
    EXPECT_THAT(ReadWords({}).error,
                HasSubstr("topkd: TOPKD_THREADS: \"many\" is not a "));
    const Read read = ReadWords({"--threads", "3"});
    EXPECT_EQ(read.error, "") << "the flag overrides the variable";
    EXPECT_EQ(read.line.server.threads, 3);
  }
  for (const char* name : {"TOPKD_THREAD", "TOPKD_PORTS", "TOPKD_SERVICE"}) {
    const Variable variable(name, "1");
    const Read read = ReadWords({});
    EXPECT_EQ(read.line.exit_code, 2);
    EXPECT_THAT(read.error,
                HasSubstr(StrCat("topkd: \"", name,
                                 "\": no setting has this variable")));
  }
}

// Kubernetes sets these in every container if there is a service named topkd.
TEST(Config, IgnoresVariablesOfKubernetes) {
  const Variable host("TOPKD_SERVICE_HOST", "10.0.0.1");
  const Variable port("TOPKD_SERVICE_PORT_GRPC", "50051");
  const Variable url("TOPKD_PORT", "tcp://10.0.0.1:50051");
  const Variable protocol("TOPKD_PORT_50051_TCP_PROTO", "tcp");
  EXPECT_EQ(ReadWords({}).error, "");
}

}  // namespace
}  // namespace topk
