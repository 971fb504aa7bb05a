#include "tests/integration/subprocess.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/support/test_server.h"

namespace topk::testing {

TemporaryFolder::TemporaryFolder() {
  std::string name =
      std::filesystem::temp_directory_path() / "topk_test_XXXXXX";
  if (mkdtemp(name.data()) == nullptr) std::abort();
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Subprocess::Subprocess(const std::vector<std::string>& command,
                       const std::vector<std::string>& environment) {
  // Allocate before the fork, because another thread may lock the allocator.
  const std::string output = folder_.File("output");
  std::vector<std::string> words = command;
  std::vector<std::string> variables = environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    const int fd = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
}

Subprocess::~Subprocess() {
  if (Ended()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Subprocess::Signal(int number) { kill(pid_, number); }

bool Subprocess::Ended() {
  if (status_ >= 0) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

int Subprocess::Wait() {
  Eventually([this] { return Ended(); });
  return status_;
}

int Subprocess::Stop() {
  Signal(SIGTERM);
  return Wait();
}

std::string Subprocess::Output() const {
  return ReadFile(folder_.File("output"));
}

}  // namespace topk::testing
