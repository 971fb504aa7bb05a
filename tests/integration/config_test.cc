// Flags and environment variables.
#include "server/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <sstream>

#include "core/base/text.h"

namespace topk {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
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

// trace_settings_test.cc tests the precedence of the other variables.
TEST(Config, ReadsTheCollectorFromTheFlagOrAVariable) {
  const auto endpoint_of = [](const std::vector<const char*>& words) {
    return ReadWords(words).line.server.traces.endpoint;
  };
  const Variable of_all("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a");
  EXPECT_EQ(endpoint_of({}), "http://a:4317");
  EXPECT_EQ(endpoint_of({"--otlp-endpoint", "HTTPS://b:1"}), "https://b:1");
}

struct Setting {
  std::string name;
  std::string value;
  /// The expected value in the printed settings.
  std::string printed;
};

std::string FlagOf(const std::string& variable) {
  std::string flag = "--" + variable;
  for (char& c : flag) c = c == '_' ? '-' : static_cast<char>(tolower(c));
  return flag;
}

// A setting is printed with the same value whether it comes from a flag, an
// environment variable or the printed settings.
TEST(Config, ReadsAndPrintsSettings) {
  const Setting settings[] = {
      {"DRAIN_TIMEOUT", "2", "2"},
      {"DRAIN_TIMEOUT", "1.5s", "1.5"},
      {"MAX_CONNECTION_IDLE", "2m", "120"},
      {"MAX_CONNECTION_AGE", "1234567.875", "1234567.875"},
      {"HANDSHAKE_TIMEOUT", "500ms", "0.5"},
      {"MAX_INFLIGHT_BYTES", "0", "0"},
      {"MAX_INFLIGHT_BYTES", "010", "10"},
      {"MAX_INFLIGHT_BYTES", "64KiB", "65536"},
      {"MAX_INFLIGHT_BYTES", "1.5 gib", "1610612736"},
      {"MAX_INFLIGHT_BYTES", "3kb", "3072"},
      {"MAX_INFLIGHT_BYTES", "0.1KiB", "103"},
      {"MAX_INFLIGHT_BYTES", "7EiB", "8070450532247928832"},
      {"MAX_INFLIGHT_BYTES", "9223372036854775807", "9223372036854775807"},
      {"CLIENT_BYTES_PER_SECOND", "1e6", "1e+06"},
      {"LISTEN", "unix:///run/s,[::1]:0", "unix:/run/s,[::1]:0"},
      {"UNIX_SOCKET_MODE", "0660", "0660"},
      {"ALLOW_SHARED_MEMORY", "true", "true"},
      {"ALLOW_SHARED_MEMORY", "off", "false"},
      {"TLS_ALLOWED_SAN", "a.example,spiffe://b", "a.example,spiffe://b"},
      {"READY_FILE", " a=b #\"'", " a=b #\"'"},
  };
  for (const Setting& setting : settings) {
    const std::string line =
        StrCat("\nTOPKD_", setting.name, "=", setting.printed, "\n");
    SCOPED_TRACE(line);
    const auto expect_line = [&](const Read& read) {
      EXPECT_EQ(read.error, "");
      EXPECT_THAT("\n" + read.line.settings, HasSubstr(line));
    };
    const std::string argument = FlagOf(setting.name) + "=" + setting.value;
    expect_line(ReadWords({argument.c_str()}));
    for (const std::string& value : {setting.value, setting.printed}) {
      const Variable variable("TOPKD_" + setting.name, value);
      expect_line(ReadWords({}));
    }
  }
  EXPECT_THAT(ReadWords({}).line.settings,
              AllOf(HasSubstr("TOPKD_LISTEN=127.0.0.1:50051\n"),
                    HasSubstr("TOPKD_ALLOW_SHARED_MEMORY=false\n"),
                    Not(HasSubstr("=\n"))));
  EXPECT_THAT(
      ReadWords({"--listen", "a:1", "--listen", "b:2"}).line.server.listen,
      ElementsAre("a:1", "b:2"));
  EXPECT_TRUE(
      ReadWords({"--allow-shared-memory"}).line.server.allow_shared_memory);
  for (const char* value : {"a\nb", "a\nthreads=1", "\x1b", "\xff", "\u202e"}) {
    EXPECT_THAT(ReadWords({"--ready-file", value}).error,
                HasSubstr("has control characters or is not UTF-8\n"));
  }
}

TEST(Config, HashTokenIgnoresVariables) {
  const Variable unknown("TOPKD_BOGUS", "1");
  const Variable empty("TOPKD_TLS_CERT", "");
  const Read read = ReadWords({"hash-token", "alice"});
  EXPECT_EQ(read.error, "");
  EXPECT_EQ(read.line.action, CommandLine::Action::kHashToken);
  EXPECT_EQ(read.line.token_name, "alice");
  EXPECT_EQ(ReadWords({"hash-token"}).line.exit_code, 2);
}

// An unset shell variable must not disable TLS or enable shared memory.
TEST(Config, RejectsEmptyValues) {
  for (const char* name :
       {"TLS_CERT", "TLS_ALLOWED_SAN", "CLIENT_REQUESTS_PER_SECOND", "LISTEN",
        "METRICS_LISTEN", "ALLOW_SHARED_MEMORY", "THREADS"}) {
    SCOPED_TRACE(name);
    const std::string flag = FlagOf(name);
    const auto expect_empty = [](const Read& read, const std::string& source) {
      EXPECT_EQ(read.line.exit_code, 2);
      EXPECT_THAT(read.error, HasSubstr(StrCat("topkd: ", source,
                                               ": the value is empty\n")));
    };
    expect_empty(ReadWords({(flag + "=").c_str()}), flag);
    expect_empty(ReadWords({(flag + "=,").c_str(), "--threads"}), flag);
    EXPECT_EQ(ReadWords({flag.c_str(), ""}).line.exit_code, 2);
    const Variable empty(StrCat("TOPKD_", name), "");
    expect_empty(ReadWords({}), StrCat("TOPKD_", name));
  }
  for (const char* list : {"LISTEN", "TLS_ALLOWED_SAN"}) {
    const std::string variable = StrCat("TOPKD_", list);
    const Variable comma(variable, ",");
    EXPECT_THAT(
        ReadWords({}).error,
        HasSubstr(StrCat("topkd: ", variable, ": the value is empty\n")));
  }
  const Variable overridden("TOPKD_TLS_CLIENT_CA", "");
  EXPECT_EQ(ReadWords({"--tls-client-ca", "ca.pem"}).error, "");
}

TEST(Config, ErrorsAreShortAndPlain) {
  const std::string hostile =
      "\x1b[2J\u202e\u009b\n\xff" + std::string(100'000, 'x');
  for (const char* flag :
       {"--listen", "--metrics-listen", "--unix-socket-mode",
        "--access-log-sample", "--drain-timeout", "--threads", "--backend",
        "--shared-memory-prefix", "--otlp-endpoint", "--tls-allowed-san"}) {
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

TEST(Config, WrongSettingsAreUsageErrorsThatNameThem) {
  for (const auto& [flag, values] :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"--bogus", "1"},
           {"--threads", "x|-1|1.5|4294967296"},
           {"--listen",
            "nowhere|127.0.0.1:65536|unix:|a "
            "b:0|unix://|unix://run/s|unix:/"
            "a%20b|unix-abstract:s|unix-abstract:s:1|::1:0|vsock:1:2"},
           {"--metrics-listen",
            "nowhere|unix:/a|unix-abstract:s:1|46010,127.0.0.1:46011|"
            "127.0.0.1:0,127.0.0.1:0"},
           {"--max-message-bytes", "|2147483648|16777215"},
           {"--max-output-bytes", "2147483647"},
           {"--max-elements", "1e30|9223372036854775808|0x10"},
           {"--drain-timeout", "nan|-1|3 days|inf|1e400|-0.001|1e-320"},
           {"--slow-request", "1e-9ms|nans"},
           {"--access-log-sample", "inf|1.1|0.5x"},
           {"--tls-allowed-san", "a b"},
           {"--client-requests-per-second", "1e-300|inf"},
           {"--client-bytes-per-second", "4.9e-324|1e16"},
           {"--max-inflight-bytes",
            "8EiB|9223372036854775808|99999999999999999999|-1|-0.5|nan|inf|GiB|"
            "1XB|1KiBB|1e3"},
           {"--keepalive-time", "0"},
           {"--max-connection-age", "99999m"},
           {"--max-concurrent-streams", "0"},
           {"--max-metadata-bytes", "100"},
           {"--unix-socket-mode", "0680|1777"},
           {"--shared-memory-prefix", "|topk|/a/b"},
           {"--log-level", "loud"},
           {"--otlp-endpoint", "b:1"}}) {
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
  EXPECT_THAT(
      ReadWords({"--allow-shared-memory", "--allow-shared-memory=3"}).error,
      HasSubstr("\"3\" is not true or false"));
}

TEST(Config, RejectsInvalidAndUnknownVariables) {
  {
    const Variable number("TOPKD_ALLOW_SHARED_MEMORY", "2");
    EXPECT_THAT(ReadWords({}).error, HasSubstr("\"2\" is not true or false"));
  }
  {
    const Variable threads("TOPKD_THREADS", "many");
    EXPECT_THAT(ReadWords({}).error,
                HasSubstr("topkd: TOPKD_THREADS: \"many\" is not a "));
    const Read read = ReadWords({"--threads", "3"});
    EXPECT_EQ(read.error, "") << "the flag overrides the variable";
    EXPECT_EQ(read.line.server.threads, 3);
  }
  for (const char* name :
       {"TOPKD_THREAD", "TOPKD_PORT", "TOPKD_METRICS_PORT", "TOPKD_SERVICE"}) {
    const Variable variable(name, "1");
    const Read read = ReadWords({});
    EXPECT_EQ(read.line.exit_code, 2);
    EXPECT_THAT(read.error,
                HasSubstr(StrCat("topkd: \"", name,
                                 "\": no setting has this variable")));
  }
}

// A regular expression must not recurse for each character of the name.
TEST(Config, RejectsALongVariable) {
  const Variable variable("TOPKD_PORT_" + std::string(100'000, '1'), "1");
  EXPECT_EQ(ReadWords({}).line.exit_code, 2);
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
