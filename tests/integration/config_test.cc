// Flags, environment and config file.
#include "server/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "core/base/text.h"
#include "tests/integration/subprocess.h"

namespace topk {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
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
  read.error = GetCapturedStderr();
  return read;
}

// Sets a variable for a test.
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

TEST(Config, HasDefaults) {
  const Read read = ReadWords({});
  EXPECT_EQ(read.line.action, CommandLine::Action::kServe);
  EXPECT_THAT(read.line.server.listen, ElementsAre("127.0.0.1:50051"));
  EXPECT_EQ(read.line.server.metrics_listen, "");
  EXPECT_EQ(read.line.server.threads, 0);
  EXPECT_EQ(read.line.server.max_message_bytes, 64 << 20);
  EXPECT_EQ(read.line.server.drain_timeout_seconds, 25);
  EXPECT_EQ(read.line.server.connections.handshake_timeout, 10);
  EXPECT_EQ(read.line.server.connections.max_metadata_bytes, 8192);
}

TEST(Config, PrintsAConfigFile) {
  const TemporaryFolder folder;
  const std::string file = folder.File("topkd.toml");
  const Read plain = ReadWords({});
  const Read lists =
      ReadWords({"--listen", "127.0.0.1:0,unix:/tmp/topkd", "--tls-allowed-san",
                 "a.example", "--tls-allowed-san", "b.example", "--drain-delay",
                 "1500ms", "--unix-socket-mode", "0660"});
  for (const Read* read : {&plain, &lists}) {
    EXPECT_EQ(read->error, "");
    std::ofstream(file) << read->line.settings;
    const Read again = ReadWords({"--config", file.c_str()});
    EXPECT_EQ(again.error, "");
    EXPECT_EQ(again.line.settings, read->line.settings);
  }
}

TEST(Config, PrintsOnlyWhatItCanReadAgain) {
  const TemporaryFolder folder;
  const std::string file = folder.File("topkd.toml");
  for (const std::string value :
       {"{a", "[a",     "[a]",  "a b", "a\"b", "a'b", "a'\"b",
        ";a", "",       "a\\b", "[]",  "{}",   "#a",  "a#b",
        "''", "\"\"\"", "'''",  "\\",  "true", "1",   "\u00e9"}) {
    const Read read = ReadWords({"--check-config", "--ready-file",
                                 value.c_str(), "--metrics-listen", ""});
    EXPECT_EQ(read.error, "") << value;
    std::ofstream(file) << read.line.settings;
    EXPECT_EQ(ReadWords({"--config", file.c_str()}).line.server.ready_file,
              value);
  }
  for (const char* value : {"a\nb", "a\nthreads=1", "\x1b", "\xff", "\u202e"}) {
    EXPECT_THAT(ReadWords({"--ready-file", value}).error,
                HasSubstr("has control characters or is not UTF-8\n"));
  }
  for (const char* rate : {".5", "5.", "05", "5e-1"}) {
    const Read read = ReadWords({"--client-requests-per-second", rate});
    std::ofstream(file) << read.line.settings;
    const Read again = ReadWords({"--config", file.c_str()});
    EXPECT_EQ(again.error, "") << rate;
    EXPECT_EQ(again.line.server.security.client_requests_per_second,
              read.line.server.security.client_requests_per_second);
  }
}

TEST(Config, ReadsAccessLogOptions) {
  const Read read = ReadWords({"--access-log-sample", "0.25", "--slow-request",
                               "250ms", "--admin-listen", "127.0.0.1:0"});
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.line.server.access_log_sample, 0.25);
  EXPECT_EQ(read.line.server.slow_request_seconds, 0.25);
  EXPECT_EQ(read.line.server.admin_listen, "127.0.0.1:0");
  for (const char* share : {"-0.1", "1.1", "nan", "half", "0.5x", ""}) {
    const Read bad = ReadWords({"--access-log-sample", share});
    EXPECT_EQ(bad.line.exit_code, 2) << share;
    EXPECT_THAT(bad.error, HasSubstr("--access-log-sample"));
    EXPECT_THAT(bad.error, HasSubstr(share));
  }
  EXPECT_THAT(ReadWords({"--admin-listen", "nowhere"}).error,
              HasSubstr("nowhere"));
}

TEST(Config, FlagsPrecedeVariablesAndVariablesTheFile) {
  const TemporaryFolder folder;
  const std::string file = folder.File("topkd.toml");
  std::ofstream(file) << "threads = 1\nmax-elements = 1\nlog-level = 'debug'\n"
                         "listen = ['127.0.0.1:1', 'unix:/a']\n";
  const Variable threads("TOPKD_THREADS", "2");
  const Variable elements("TOPKD_MAX_ELEMENTS", "2");
  const Read read =
      ReadWords({"--config", file.c_str(), "--max-elements", "3"});
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.line.server.max_elements, 3);
  EXPECT_EQ(read.line.server.threads, 2);
  EXPECT_EQ(read.line.server.log_level, "debug");
  EXPECT_THAT(read.line.server.listen, ElementsAre("127.0.0.1:1", "unix:/a"));
}

TEST(Config, ReadsTheFileThatAVariableNames) {
  const TemporaryFolder folder;
  const std::string file = folder.File("topkd.toml");
  std::ofstream(file) << "threads = 5\n";
  {
    const Variable config("TOPKD_CONFIG", file);
    EXPECT_EQ(ReadWords({}).line.server.threads, 5);
  }
  const Variable config("TOPKD_CONFIG", folder.File("absent"));
  const Read read = ReadWords({});
  EXPECT_EQ(read.line.exit_code, 2);
  EXPECT_THAT(read.error, HasSubstr("absent"));
}

TEST(Config, SplitsListsInVariablesAtCommas) {
  const Variable listen("TOPKD_LISTEN", "[::1]:0,unix:/tmp/s");
  EXPECT_THAT(ReadWords({}).line.server.listen,
              ElementsAre("[::1]:0", "unix:/tmp/s"));
  EXPECT_THAT(
      ReadWords({"--listen", "a:1", "--listen", "b:2"}).line.server.listen,
      ElementsAre("a:1", "b:2"));
}

TEST(Config, ReadsDurationsWithUnits) {
  const auto drain = [](const char* text) {
    return ReadWords({"--drain-timeout", text})
        .line.server.drain_timeout_seconds;
  };
  EXPECT_EQ(drain("2"), 2);
  EXPECT_EQ(drain("1.5s"), 1.5);
  EXPECT_EQ(drain("500ms"), 0.5);
  EXPECT_EQ(drain("2m"), 120);
}

TEST(Config, DurationsKeepTheirPrecision) {
  const Read read = ReadWords({"--max-connection-age", "1234567.875"});
  EXPECT_EQ(read.line.server.connections.max_connection_age, 1234567.875);
}

TEST(Config, ReadsBytesWithUnits) {
  const auto bytes = [](const char* text) {
    return ReadWords({"--max-inflight-bytes", text})
        .line.server.max_inflight_bytes;
  };
  EXPECT_EQ(bytes("65536"), 65536);
  EXPECT_EQ(bytes("0"), 0);
  EXPECT_EQ(bytes("010"), 10);
  EXPECT_EQ(bytes("64KiB"), 64 << 10);
  EXPECT_EQ(bytes("1.5GiB"), 1536 << 20);
  EXPECT_EQ(bytes("1.5 gib"), 1536 << 20);
  EXPECT_EQ(bytes("2M"), 2 << 20);
  EXPECT_EQ(bytes("3kb"), 3 << 10);
  EXPECT_EQ(bytes("7B"), 7);
  EXPECT_EQ(bytes("0.1KiB"), 103);  // rounded up
  EXPECT_EQ(bytes("0.1"), 1);
  EXPECT_EQ(bytes("7EiB"), int64_t{7} << 60);
  EXPECT_EQ(bytes("9223372036854775807"), INT64_MAX);
}

TEST(Config, ReadsNumbersAsDecimals) {
  const Read read =
      ReadWords({"--client-ipv6-prefix", "056", "--max-rank", "010"});
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.line.server.security.client_ipv6_prefix, 56);
  EXPECT_EQ(read.line.server.max_rank, 10);
}

TEST(Config, NormalizesUnixAddresses) {
  const auto listen = [](const char* text) {
    return ReadWords({"--listen", text}).line.server.listen;
  };
  EXPECT_THAT(listen("unix:///run/s"), ElementsAre("unix:/run/s"));
  EXPECT_THAT(listen("unix:/run/s,unix:///run/t,unix:u"),
              ElementsAre("unix:/run/s", "unix:/run/t", "unix:u"));
  const Variable variable("TOPKD_LISTEN", "unix:///run/v");
  EXPECT_THAT(ReadWords({}).line.server.listen, ElementsAre("unix:/run/v"));
  EXPECT_THAT(ReadWords({"--listen", "unix-abstract:s"}).error,
              HasSubstr("--listen: \"unix-abstract:s\": abstract sockets"));
}

TEST(Config, ReadsConnectionOptions) {
  const Variable idle("TOPKD_MAX_CONNECTION_IDLE", "2m");
  const ConnectionOptions options =
      ReadWords({"--max-connection-age", "1.5s", "--max-concurrent-streams",
                 "7", "--handshake-timeout", "500ms"})
          .line.server.connections;
  EXPECT_EQ(options.max_connection_idle, 120);
  EXPECT_EQ(options.max_connection_age, 1.5);
  EXPECT_EQ(options.max_concurrent_streams, 7);
  EXPECT_EQ(options.handshake_timeout, 0.5);
}

TEST(Config, ReadsModesAsOctal) {
  EXPECT_EQ(ReadWords({}).line.server.unix_socket_mode, 0600u);
  const auto mode = [](const char* text) {
    return ReadWords({"--unix-socket-mode", text}).line.server.unix_socket_mode;
  };
  EXPECT_EQ(mode("0660"), 0660u);
  EXPECT_EQ(mode("666"), 0666u);
}

TEST(Config, ReadsSharedMemoryFromFlagVariableAndFile) {
  EXPECT_FALSE(ReadWords({}).line.server.allow_shared_memory);
  EXPECT_EQ(ReadWords({}).line.server.shared_memory_prefix, "/topk");
  EXPECT_TRUE(
      ReadWords({"--allow-shared-memory"}).line.server.allow_shared_memory);
  const TemporaryFolder folder;
  const std::string file = folder.File("topkd.toml");
  std::ofstream(file) << "allow-shared-memory = true\n"
                         "shared-memory-prefix = '/mine'\n";
  const Read read = ReadWords({"--config", file.c_str()});
  EXPECT_TRUE(read.line.server.allow_shared_memory);
  EXPECT_EQ(read.line.server.shared_memory_prefix, "/mine");
  const Variable allow("TOPKD_ALLOW_SHARED_MEMORY", "true");
  EXPECT_TRUE(ReadWords({}).line.server.allow_shared_memory);
}

TEST(Config, EmptyMetricsAddressDisablesMetrics) {
  EXPECT_EQ(ReadWords({"--metrics-listen", ""}).line.action,
            CommandLine::Action::kServe);
}

TEST(Config, ReadsTomlOfAllForms) {
  const TemporaryFolder folder;
  const std::string file = folder.File("topkd.toml");
  for (const char* text : {
           "listen = ['a:1', 'b:2']\nthreads = 1\n",
           "\xEF\xBB\xBFlisten = [\n  'a:1',\n  'b:2'\n]\nthreads = 1\n",
           "listen =[  # all\n'a:1',  # one\n# none\n\n'b:2']\nthreads=0x1",
           "listen=[\r\n'a:1',\r\n'b:2',\r\n]\r\nthreads=1\r\n",
           "\"listen\" = 'a:1,b:2'\nthreads = \"1\"",
       }) {
    std::ofstream(file) << text;
    const Read read = ReadWords({"--config", file.c_str()});
    EXPECT_EQ(read.error, "") << text;
    EXPECT_THAT(read.line.server.listen, ElementsAre("a:1", "b:2")) << text;
    EXPECT_EQ(read.line.server.threads, 1) << text;
  }
  std::ofstream(file) << "client-bytes-per-second = 1e6\ndrain-delay = 0.5\n"
                         "drain-timeout = '500ms'\nmax-inflight-bytes='1KiB'\n"
                         "unix-socket-mode = '0660'\n";
  const ServerConfig config = ReadWords({"--config", file.c_str()}).line.server;
  EXPECT_EQ(config.security.client_bytes_per_second, 1e6);
  EXPECT_EQ(config.drain_delay_seconds, 0.5);
  EXPECT_EQ(config.drain_timeout_seconds, 0.5);
  EXPECT_EQ(config.max_inflight_bytes, 1024);
  EXPECT_EQ(config.unix_socket_mode, 0660u);
}

TEST(Config, NamesThePlaceInTheFileThatIsWrong) {
  const TemporaryFolder folder;
  const std::string file = folder.File("topkd.toml");
  for (const auto& [text, error] : {
           // Not TOML.
           std::pair("threads = 1\n x # y\n", ":2:4: "),
           std::pair("listen = ['a:1',\n'b:1'\n]\n#\n\n;\na=\n", ":6:1: "),
           std::pair("threads = x\n", ":1:11: "),
           std::pair("threads = 1\nlisten = [\n'a:1'\n#]\n", ":4:"),
           std::pair("[server\n", ":1:8: "),
           std::pair("unix-socket-mode = 0660\n", ":1:24: "),
           std::pair("ready-file = '\xff'\n", ":1:14: "),
           std::pair("ready-file = '\x01'\n", ":1:15: "),
           std::pair("threads = 1\nlisten = 'a:1'\nthreads = 2\n", ":3:11: "),
           std::pair("[threads]\n[threads]\n", ":2:"),
           // Not settings.
           std::pair("bogus = 1\n", ":1:1: unknown key \"bogus\"\n"),
           std::pair("[server]\nthreads = 1\n",
                     ":1:2: unknown key \"server\"\n"),
           std::pair("threads = 1\n Thread = 2\n",
                     ":2:2: unknown key \"Thread\"\n"),
           std::pair("a.threads = 1\n", ":1:1: unknown key \"a\"\n"),
           std::pair("config = 'x'\n", ":1:1: unknown key \"config\"\n"),
           std::pair("threads = 1\ncheck-config = true\n",
                     ":2:1: unknown key \"check-config\"\n"),
           // Of another type.
           std::pair("allow-shared-memory = ''\n",
                     ":1:23: allow-shared-memory: \"''\" is not true or false"),
           std::pair("allow-shared-memory = 1\n",
                     ":1:23: allow-shared-memory: \"1\" is not true or false"),
           std::pair("ready-file = 5\n",
                     ":1:14: ready-file: \"5\" is not a string\n"),
           std::pair("unix-socket-mode = 0o660\n",
                     ":1:20: unix-socket-mode: \"0o660\" is not a string\n"),
           std::pair("threads = [1, 2]\n",
                     ":1:11: threads: an array is not a number"),
           std::pair("drain-delay = 1979-05-27\n",
                     ":1:15: drain-delay: \"1979-05-27\" is not a number"),
           std::pair("[threads]\n", ": threads: a table is not a number"),
           std::pair("listen = ['a:1',\n ['b:1']]\n",
                     ":2:2: listen: an array is not a string\n"),
           std::pair("listen = []\n", ":1:10: listen: the array is empty\n"),
           // Of the type, but not a value.
           std::pair("\nthreads = 'x'\n",
                     ":2:11: threads: \"x\" is not a whole number"),
           std::pair("threads = 1.5\n",
                     ":1:11: threads: \"1.5\" is not a whole number"),
           std::pair("ready-file = 'a'\nthreads = -1\n",
                     ":2:11: threads: \"-1\" is not a whole number"),
           std::pair("drain-delay = nan\n",
                     ":1:15: drain-delay: \"nan\" is not a duration"),
           std::pair("log-level = \"loud\"\n",
                     ":1:13: log-level: \"loud\" is not one of trace, debug,"),
           std::pair("listen = [\"127.0.0.1:0\", \"a\"]\n",
                     ":1:10: listen: \"a\" is not host:port"),
           std::pair("listen = ','\n", ":1:10: listen: the value is empty\n"),
           std::pair("ready-file = \"a\\u0000\"\n",
                     ":1:14: ready-file: \"a?\" has control characters"),
       }) {
    std::ofstream(file) << text;
    const Read read = ReadWords({"--config", file.c_str()});
    EXPECT_EQ(read.line.action, CommandLine::Action::kExit) << text;
    EXPECT_EQ(read.line.exit_code, 2) << text;
    EXPECT_THAT(read.error, StartsWith(StrCat("topkd: ", file, ":"))) << text;
    EXPECT_THAT(read.error, HasSubstr(error)) << text;
    EXPECT_EQ(std::ranges::count(read.error, '\n'), 2) << text;
  }
  const Variable level("TOPKD_LOG_LEVEL", "loud");
  EXPECT_THAT(ReadWords({}).error,
              HasSubstr("topkd: TOPKD_LOG_LEVEL: \"loud\" is not one of "));
  std::ofstream(file) << "log-level = \"quiet\"\n";
  EXPECT_THAT(ReadWords({"--config", file.c_str()}).error,
              HasSubstr("topkd: TOPKD_LOG_LEVEL: \"loud\""));
  EXPECT_THAT(ReadWords({"--config", file.c_str(), "--log-level", "low"}).error,
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
           std::pair(large, "it has more than 1 MiB"),
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

TEST(Config, RejectsDeepAndLargeTables) {
  const TemporaryFolder folder;
  const std::string file = folder.File("topkd.toml");
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
    std::ofstream(file) << text;
    const Read read = ReadWords({"--config", file.c_str()});
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

TEST(Config, RejectsAnEmptyNameOfTheFile) {
  EXPECT_EQ(ReadWords({"--config", ""}).line.exit_code, 2);
  EXPECT_THAT(ReadWords({"--config", ""}).error,
              HasSubstr("topkd: --config: the value is empty\n"));
  EXPECT_EQ(ReadWords({"--config="}).line.exit_code, 2);
  const Variable variable("TOPKD_CONFIG", "");
  EXPECT_THAT(ReadWords({}).error,
              HasSubstr("topkd: TOPKD_CONFIG: the value is empty\n"));
  const TemporaryFolder folder;
  const std::string file = folder.File("topkd.toml");
  std::ofstream(file) << "threads = 3\n";
  EXPECT_EQ(ReadWords({"--config", file.c_str()}).line.server.threads, 3);
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

TEST(Config, RejectsEmptySecurityFlags) {
  for (const char* flag : {"--tls-cert", "--auth-tokens-file"}) {
    const Read read = ReadWords({flag, ""});
    EXPECT_EQ(read.line.exit_code, 2) << flag;
    EXPECT_THAT(read.error, HasSubstr(": the value is empty\n"));
  }
  EXPECT_EQ(ReadWords({"--ready-file", ""}).error, "");
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

TEST(Config, NamesAnUnknownFlag) {
  EXPECT_THAT(ReadWords({"--lisen", "127.0.0.1:0"}).error,
              HasSubstr("topkd: unknown argument \"--lisen\"\n"));
}

using Words = std::vector<std::string>;

class WrongSetting : public ::testing::TestWithParam<Words> {};

TEST_P(WrongSetting, IsAUsageErrorThatNamesIt) {
  std::vector<const char*> words;
  for (const std::string& word : GetParam()) words.push_back(word.c_str());
  const Read read = ReadWords(words);
  EXPECT_EQ(read.line.action, CommandLine::Action::kExit);
  EXPECT_EQ(read.line.exit_code, 2);
  EXPECT_THAT(read.error, HasSubstr("topkd: "));
  EXPECT_THAT(read.error, HasSubstr(GetParam().front()));
  EXPECT_EQ(read.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    Config, WrongSetting,
    ::testing::Values(
        Words{"--bogus"}, Words{"--threads", "x"}, Words{"--threads", "-1"},
        Words{"--listen", "nowhere"}, Words{"--listen", "127.0.0.1:65536"},
        Words{"--listen", "unix:"}, Words{"--metrics-listen", "unix:/a"},
        Words{"--metrics-listen", "[::1]:0"},
        Words{"--metrics-listen", "46010,127.0.0.1:46011"},
        Words{"--metrics-listen", "127.0.0.1:0,127.0.0.1:0"},
        Words{"--health-listen", "a:0,b:0"}, Words{"--listen", "a b:0"},
        Words{"--max-message-bytes", "2147483648"},
        Words{"--max-message-bytes", "0"},
        Words{"--max-output-bytes", "2147483647"},
        Words{"--max-elements", "1e30"}, Words{"--drain-timeout", "nan"},
        Words{"--drain-timeout", "-1"}, Words{"--drain-timeout", "3 days"},
        Words{"--drain-timeout", "inf"}, Words{"--drain-timeout", "1e400"},
        Words{"--drain-timeout", "-0.001"}, Words{"--drain-timeout", "1e-320"},
        Words{"--max-connection-idle", "1e-300"},
        Words{"--slow-request", "1e-9ms"}, Words{"--slow-request", "nans"},
        Words{"--access-log-sample", "inf"},
        Words{"--client-requests-per-second", "1e-300"},
        Words{"--client-requests-per-second", "inf"},
        Words{"--client-bytes-per-second", "4.9e-324"},
        Words{"--client-bytes-per-second", "1e16"},
        Words{"--max-inflight-bytes", "8EiB"},
        Words{"--max-inflight-bytes", "9223372036854775808"},
        Words{"--max-inflight-bytes", "99999999999999999999"},
        Words{"--max-inflight-bytes", "-1"},
        Words{"--max-inflight-bytes", "-0.5"},
        Words{"--max-inflight-bytes", "nan"},
        Words{"--max-inflight-bytes", "inf"},
        Words{"--max-inflight-bytes", "GiB"},
        Words{"--max-inflight-bytes", "1XB"},
        Words{"--max-inflight-bytes", "1KiBB"},
        Words{"--max-inflight-bytes", "1e3"}, Words{"--max-message-bytes", ""},
        Words{"--max-elements", "9223372036854775808"},
        Words{"--max-elements", "0x10"}, Words{"--max-inflight-calls", "1.5"},
        Words{"--threads", "4294967296"}, Words{"--listen", "unix://"},
        Words{"--listen", "unix://run/s"}, Words{"--listen", "unix:/a%20b"},
        Words{"--listen", "unix-abstract:s"},
        Words{"--listen", "unix-abstract:s:1"}, Words{"--listen", "::1:0"},
        Words{"--listen", "vsock:1:2"},
        Words{"--admin-listen", "unix-abstract:s:1"},
        Words{"--keepalive-time", "0"}, Words{"--max-connection-age", "99999m"},
        Words{"--max-concurrent-streams", "0"},
        Words{"--max-metadata-bytes", "100"},
        Words{"--unix-socket-mode", "0680"},
        Words{"--unix-socket-mode", "1777"},
        Words{"--shared-memory-prefix", "topk"},
        Words{"--shared-memory-prefix", "/a/b"},
        Words{"--shared-memory-prefix", ""}, Words{"--log-level", "loud"},
        Words{"--log-format", "xml"}));

TEST(Config, RejectsInvalidVariables) {
  const Variable threads("TOPKD_THREADS", "many");
  const Read read = ReadWords({});
  EXPECT_EQ(read.line.exit_code, 2);
  EXPECT_THAT(read.error,
              HasSubstr("topkd: TOPKD_THREADS: \"many\" is not a "));
}

TEST(Config, RejectsUnknownVariables) {
  for (const char* name : {"TOPKD_THREAD", "TOPKD_PORTS", "TOPKD_SERVICE"}) {
    const Variable variable(name, "1");
    const Read read = ReadWords({});
    EXPECT_EQ(read.line.exit_code, 2);
    EXPECT_THAT(read.error, HasSubstr(StrCat("topkd: \"", name,
                                             "\": the variable sets nothing")));
  }
}

// Kubernetes sets these in every container if a service is called topkd.
TEST(Config, IgnoresVariablesOfKubernetes) {
  const Variable host("TOPKD_SERVICE_HOST", "10.0.0.1");
  const Variable port("TOPKD_SERVICE_PORT_GRPC", "50051");
  const Variable url("TOPKD_PORT", "tcp://10.0.0.1:50051");
  const Variable protocol("TOPKD_PORT_50051_TCP_PROTO", "tcp");
  EXPECT_EQ(ReadWords({}).error, "");
}

TEST(Config, IgnoresInvalidVariablesThatFlagsOverride) {
  const Variable threads("TOPKD_THREADS", "many");
  const Read read = ReadWords({"--threads", "3"});
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.line.server.threads, 3);
}

TEST(Config, PrintsHelpAndVersionToStdout) {
  const Read help = ReadWords({"--help"});
  EXPECT_EQ(help.line.action, CommandLine::Action::kExit);
  EXPECT_EQ(help.line.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("TOPKD_MAX_MESSAGE_BYTES"));
  const Read version = ReadWords({"--version"});
  EXPECT_EQ(version.line.exit_code, 0);
  EXPECT_THAT(version.out, MatchesRegex("topkd .* \\(gRPC 1\\..*\\)\n"));
  EXPECT_EQ(help.error + version.error, "");
}

TEST(Config, ReadsSecurityFlagsAndVariables) {
  const Variable san("TOPKD_TLS_ALLOWED_SAN", "a.example,spiffe://b");
  const Variable rate("TOPKD_CLIENT_BYTES_PER_SECOND", "1e6");
  const Read read =
      ReadWords({"--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "a",
                 "--auth-tokens-file", "t", "--health-listen", "[::1]:0"});
  EXPECT_EQ(read.error, "");
  const SecurityConfig& security = read.line.server.security;
  EXPECT_EQ(security.tls_cert + security.tls_key + security.tls_client_ca +
                security.auth_tokens_file,
            "ckat");
  EXPECT_THAT(security.tls_allowed_san, ElementsAre("a.example", "spiffe://b"));
  EXPECT_EQ(security.client_bytes_per_second, 1e6);
  EXPECT_EQ(security.client_requests_per_second, 0);
  EXPECT_EQ(read.line.server.health_listen, "[::1]:0");
  EXPECT_FALSE(ReadWords({}).line.server.security.tls());
}

TEST(Config, SecurityErrorsNameTheFlagAndTheRule) {
  EXPECT_THAT(ReadWords({"--tls-allowed-san", "a b"}).error,
              HasSubstr("--tls-allowed-san: \"a b\" is not a DNS name"));
  EXPECT_THAT(ReadWords({"--client-requests-per-second", "-1"}).error,
              HasSubstr("--client-requests-per-second"));
  EXPECT_THAT(ReadWords({"--client-bytes-per-second", "nan"}).error,
              HasSubstr("--client-bytes-per-second"));
  EXPECT_THAT(ReadWords({"--health-listen", "nowhere"}).error,
              HasSubstr("--health-listen: \"nowhere\" is not host:port"));
  EXPECT_EQ(ReadWords({"hash-token"}).line.exit_code, 2);
  EXPECT_EQ(ReadWords({"hash-token", "alice"}).line.token_name, "alice");
}

}  // namespace
}  // namespace topk
