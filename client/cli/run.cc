#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "client/cli/commands.h"
#include "client/cli/errors.h"
#include "client/cli/interrupts.h"
#include "client/cli/number_flag.h"
#include "client/cli/output.h"
#include "client/cli/request.h"
#include "client/numpy/read_tensor.h"
#include "core/engine.h"

namespace topk::cli {
namespace {

struct RunFlags {
  InputFlags input;
  OperatorFlags operation;
  bool local = false;
  bool shared_memory = false;
  int64_t index_offset = 0;
  ShowFlags show;
  ClientOptions client;
};

// Uses only the CPU: opening a device takes too long for a single tensor.
Engine LocalEngine() {
  EngineOptions options;
  options.backends.choice = "cpu";
  return Engine(options);
}

// Sends the tensor in shared memory. The outputs are in the response.
Result<Response> ComputeShared(const Client& client, v1::TopKRequest request,
                               std::span<const std::byte> data) {
  HandleInterrupts(EndProcess);
  Result<SharedMemory> input = CreateShared(data.size());
  if (!input.ok()) return input.status();
  std::ranges::copy(data, input->data().begin());
  *request.mutable_tensor()->mutable_shared_memory() =
      input->Region(0, data.size());
  return client.ComputeTopK(Request(std::move(request)));
}

Result<v1::TopKResponse> Compute(const RunFlags& flags,
                                 const v1::TopKRequest& request,
                                 std::span<const std::byte> data) {
  if (flags.local) return LocalEngine().Compute(request, data);
  const Client client(flags.client);
  const Result<Response> response =
      flags.shared_memory ? ComputeShared(client, request, data)
                          : client.ComputeTopK(Request(request, data));
  if (!response.ok()) return response.status();
  return response->message();
}

// Reads the file, computes the result on the server or locally, and writes the
// result to stdout or to files.
ExitCode Run(const RunFlags& flags) {
  if (!flags.local) {
    const ExitCode code = CheckClientFlags(flags.client);
    if (code != kOk) return code;
  }
  const Result<v1::Tensor> tensor =
      ReadTensor(flags.input.file, flags.input.member, flags.input.has_header);
  if (!tensor.ok()) return ReportInput(flags.input.file, tensor.status());
  Result<v1::TopKRequest> request = MakeRequest(flags.operation, *tensor);
  if (!request.ok()) return ReportUsage(request.status());
  request->set_index_offset(flags.index_offset);
  const Result<v1::TopKResponse> response =
      Compute(flags, *request, std::as_bytes(std::span(tensor->data())));
  if (!response.ok()) return Report(response.status());
  const int64_t rank = tensor->shape_size();
  const auto dimension = static_cast<int>((flags.operation.axis + rank) % rank);
  return Show(*response, dimension, tensor->shape(dimension), flags.show);
}

}  // namespace

void AddRun(CLI::App& app, ExitCode& status) {
  CLI::App& command = *app.add_subcommand(
      "run",
      "Selects from a .npy, .npz or text file and prints a line per slice");
  const auto owner = std::make_shared<RunFlags>();
  RunFlags& flags = *owner;
  auto* file =
      command
          .add_option("file", flags.input.file,
                      "A .npy file, a .npz archive, or text with a row of "
                      "numbers per line, separated by commas or spaces; - is "
                      "stdin")
          ->required()
          ->type_name("FILE");
  AddInputFlags(command, file, flags.input);
  AddOperatorFlags(command, flags.operation);
  command
      .add_option("--index-offset", flags.index_offset,
                  "Index of the file's first element, if the file is a "
                  "shard of a longer axis. Added to all indices; see topk "
                  "merge")
      ->transform(Whole(0));
  auto* local = command.add_flag("--local", flags.local,
                                 "Compute locally, without a server");
  command
      .add_flag("--shared-memory", flags.shared_memory,
                "Pass the tensor in shared memory. The server "
                "must run on this machine and allow shared memory with the "
                "prefix /topk")
      ->excludes(local);
  AddShowFlags(command, flags.show);
  AddClientFlags(command, flags.client);
  command.callback([owner, &status] { status = Run(*owner); });
}

}  // namespace topk::cli
