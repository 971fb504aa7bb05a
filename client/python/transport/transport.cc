// The extension module topk_client_transport: calls of bytes by gRPC's C++
// library, with which the Python client spends less time on each message than
// with grpcio. topk_client._transport gives it the form of grpcio's channels.
//
// Every function is called with the GIL, which protects the members of every
// object; only what waits or copies releases it, and touches no member then.
// Large requests are sent from where Python has them.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

namespace py = pybind11;

namespace topk {
namespace {

using Clock = std::chrono::system_clock;
using Metadata = std::vector<std::pair<std::string, std::string>>;
using Pem = std::array<std::optional<std::string>, 3>;
using Options =
    std::vector<std::pair<std::string, std::variant<int, std::string>>>;

// Smaller messages are copied.
constexpr size_t kLargeBytes = 64 << 10;
// A signal of Python's, Ctrl-C for example, is handled after this time.
constexpr std::chrono::milliseconds kSignalInterval{100};

bool IsFinalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Releases the GIL. A thread that has outlived the interpreter must not ask for
// the GIL again: Python before 3.14 would end it, through frames of C++. Only
// the thread that ends the interpreter has the GIL while that happens.
class WithoutGil {
 public:
  WithoutGil() : finalizes_(IsFinalizing()), state_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    while (!finalizes_ && IsFinalizing()) pause();
    PyEval_RestoreThread(state_);
  }

 private:
  const bool finalizes_;
  PyThreadState* const state_;
};

// Objects that gRPC has sent, to be released by a thread that has the GIL.
class SentObjects {
 public:
  void Add(PyObject* object) {
    const std::lock_guard lock(mutex_);
    objects_.push_back(object);
  }
  // REQUIRES: the GIL.
  void Release() {
    std::vector<PyObject*> objects;
    {
      const std::lock_guard lock(mutex_);
      objects.swap(objects_);
    }
    for (PyObject* object : objects) Py_DECREF(object);
  }

 private:
  std::mutex mutex_;
  std::vector<PyObject*> objects_;
};

// Never destroyed: threads of gRPC may outlive static objects.
SentObjects& Sent() {
  static auto* const sent = new SentObjects;
  return *sent;
}

grpc::ByteBuffer ToBuffer(const py::bytes& message) {
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(message.ptr(), &data, &size) != 0) {
    throw py::error_already_set();
  }
  const auto bytes = static_cast<size_t>(size);
  if (bytes < kLargeBytes) {
    const grpc::Slice slice(data, bytes);
    return {&slice, 1};
  }
  Py_INCREF(message.ptr());
  const grpc::Slice slice(
      data, bytes,
      [](void* object) { Sent().Add(static_cast<PyObject*>(object)); },
      message.ptr());
  return {&slice, 1};
}

py::bytes ToBytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) slices.clear();
  PyObject* const bytes = PyBytes_FromStringAndSize(
      nullptr, static_cast<Py_ssize_t>(buffer.Length()));
  if (bytes == nullptr) throw py::error_already_set();
  char* to = PyBytes_AS_STRING(bytes);
  std::optional<WithoutGil> released;
  if (buffer.Length() >= kLargeBytes) released.emplace();
  for (const grpc::Slice& slice : slices) {
    std::memcpy(to, slice.begin(), slice.size());
    to += slice.size();
  }
  released.reset();
  return py::reinterpret_steal<py::bytes>(bytes);
}

// How a call ended.
struct End {
  int code = 0;
  std::string details;
  py::list trailers;  // of (str, str), or (str, bytes) for keys ending in -bin
};

End EndOf(const grpc::Status& status, const grpc::ClientContext& context) {
  End end;
  end.code = status.error_code();
  end.details = status.error_message();
  for (const auto& [key, value] : context.GetServerTrailingMetadata()) {
    const std::string name(key.data(), key.size());
    const bool binary = name.size() > 4 && name.ends_with("-bin");
    py::object told =
        binary ? py::object(py::bytes(value.data(), value.size()))
               : py::reinterpret_steal<py::object>(PyUnicode_DecodeLatin1(
                     value.data(), static_cast<Py_ssize_t>(value.size()),
                     nullptr));
    end.trailers.append(py::make_tuple(name, told));
  }
  return end;
}

// The state that the calls of one channel share.
struct Shared {
  explicit Shared(const std::shared_ptr<grpc::Channel>& channel)
      : stub(channel) {}

  grpc::GenericStub stub;
  bool closed = false;
  std::unordered_set<grpc::ClientContext*> calls;
};

// A call's context and queue, which close() cancels.
class Call {
 public:
  Call(std::shared_ptr<Shared> shared, std::optional<double> timeout,
       const Metadata& metadata)
      : shared_(std::move(shared)) {
    if (timeout) {
      context_.set_deadline(Clock::now() +
                            std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(*timeout)));
    }
    for (const auto& [key, value] : metadata) {
      context_.AddMetadata(key, value);
    }
    if (shared_->closed) {
      throw py::value_error("Cannot invoke RPC on closed channel!");
    }
    shared_->calls.insert(&context_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  // REQUIRES: every operation has ended.
  ~Call() {
    shared_->calls.erase(&context_);
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  grpc::GenericStub& stub() { return shared_->stub; }
  grpc::ClientContext& context() { return context_; }
  grpc::CompletionQueue& queue() { return queue_; }

  // Waits without the GIL for the next event. A signal whose handler raises
  // cancels the call; its exception is thrown after the call's end by
  // ThrowSignal().
  void* Next(bool& ok) {
    void* tag = nullptr;
    for (;;) {
      {
        const WithoutGil released;
        if (queue_.AsyncNext(&tag, &ok, Clock::now() + kSignalInterval) !=
            grpc::CompletionQueue::TIMEOUT) {
          return tag;
        }
      }
      if (heeds_signals_ && !signal_ && PyErr_CheckSignals() != 0) {
        signal_.emplace();
        context_.TryCancel();
      }
    }
  }

  // Returns an event that has already happened, or nullptr.
  void* NextNow(bool& ok) {
    void* tag = nullptr;
    return queue_.AsyncNext(&tag, &ok, gpr_time_0(GPR_CLOCK_REALTIME)) ==
                   grpc::CompletionQueue::GOT_EVENT
               ? tag
               : nullptr;
  }

  // For destructors, which cannot throw.
  void IgnoreSignals() { heeds_signals_ = false; }

  void ThrowSignal() {
    if (signal_) throw py::error_already_set(*std::exchange(signal_, {}));
  }

 private:
  const std::shared_ptr<Shared> shared_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  bool heeds_signals_ = true;
  std::optional<py::error_already_set> signal_;
};

// Sends a message and waits for the response, which is None if the call failed.
py::tuple Unary(const std::shared_ptr<Shared>& shared,
                const std::string& method, const py::bytes& request,
                std::optional<double> timeout, const Metadata& metadata) {
  Sent().Release();
  Call call(shared, timeout, metadata);
  grpc::ByteBuffer response;
  grpc::Status status;
  const auto reader = call.stub().PrepareUnaryCall(
      &call.context(), method, ToBuffer(request), &call.queue());
  reader->StartCall();
  reader->Finish(&response, &status, nullptr);
  bool ok = false;
  call.Next(ok);
  Sent().Release();
  call.ThrowSignal();
  return py::make_tuple(
      status.ok() ? py::object(ToBytes(response)) : py::none(),
      EndOf(status, call.context()));
}

// A call that sends and receives any number of messages. Two threads may use
// it: one that writes, and one that reads, which makes both proceed.
class Stream {
 public:
  Stream(const std::shared_ptr<Shared>& shared, const std::string& method,
         std::optional<double> timeout, const Metadata& metadata)
      : call_(shared, timeout, metadata),
        stream_(call_.stub().PrepareCall(&call_.context(), method,
                                         &call_.queue())) {
    stream_->StartCall(Begin(kStart));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    Cancel();
    call_.IgnoreSignals();
    bool ok = false;
    while (running_ != 0) End(call_.Next(ok));
  }

  // Takes a message to be sent after those before it. Returns whether there is
  // room for another; if not, read() returns None once there is.
  bool Write(const py::bytes& message) {
    Sent().Release();
    if (!writes_end_) {
      writes_.push_back(ToBuffer(message));
      writes_bytes_ += writes_.back().Length();
      StartWrite();
    }
    // After the last write the writer waits for the end of the call.
    writer_waits_ = !HasRoom();
    return !writer_waits_;
  }

  void CloseWrites() {
    writes_close_ = true;
    StartWrite();
  }

  void Cancel() { call_.context().TryCancel(); }

  // Returns the next message. None if there is room for a message to write
  // again, or if the call has ended and all were read: end() tells which.
  std::optional<py::bytes> Read() {
    Sent().Release();
    while (reads_.empty() && !status_ && !(writer_waits_ && HasRoom())) {
      bool ok = false;
      for (void* tag = call_.Next(ok); tag != nullptr;
           tag = status_ ? nullptr : call_.NextNow(ok)) {
        Handle(End(tag), ok);
      }
    }
    if (status_) call_.ThrowSignal();
    if (writer_waits_ && HasRoom()) {
      writer_waits_ = false;
      return std::nullopt;
    }
    if (reads_.empty()) return std::nullopt;
    const grpc::ByteBuffer message = std::move(reads_.front());
    reads_.pop_front();
    reads_bytes_ -= message.Length();
    StartRead();
    return ToBytes(message);
  }

  std::optional<topk::End> end() {
    if (!status_ || !reads_.empty()) return std::nullopt;
    return EndOf(*status_, call_.context());
  }

 private:
  // The operations in flight, at most one of each kind.
  enum Operation : unsigned {
    kStart = 1,
    kWrite = 2,
    kCloseWrites = 4,
    kRead = 8,
    kFinish = 16
  };

  void* Begin(Operation operation) {
    running_ |= operation;
    return reinterpret_cast<void*>(uintptr_t{operation});
  }
  Operation End(void* tag) {
    const auto operation =
        static_cast<Operation>(reinterpret_cast<uintptr_t>(tag));
    running_ &= ~operation;
    return operation;
  }
  bool HasRoom() const {
    return !writes_end_ && writes_.size() < kMaxMessages &&
           writes_bytes_ < kMaxBytes;
  }

  void Handle(Operation operation, bool ok) {
    switch (operation) {
      case kStart:
      case kWrite:
        if (!ok) writes_end_ = true;
        StartWrite();
        if (operation == kStart) StartRead();
        break;
      case kCloseWrites:
        break;
      case kRead:
        if (ok) {
          reads_bytes_ += read_.Length();
          reads_.push_back(std::move(read_));
        } else {
          reads_end_ = true;
        }
        read_.Clear();
        StartRead();
        break;
      case kFinish:
        writes_end_ = true;
        status_ = finish_;
        break;
    }
  }

  void StartWrite() {
    if (writes_end_) {
      writes_.clear();
      writes_bytes_ = 0;
      return;
    }
    if ((running_ & (kStart | kWrite | kCloseWrites)) != 0) return;
    if (!writes_.empty()) {
      const grpc::ByteBuffer message = std::move(writes_.front());
      writes_.pop_front();
      writes_bytes_ -= message.Length();
      grpc::WriteOptions options;
      // Another one follows at once: gRPC may send both together.
      if (!writes_.empty()) options.set_buffer_hint();
      stream_->Write(message, options, Begin(kWrite));
    } else if (writes_close_) {
      writes_end_ = true;
      stream_->WritesDone(Begin(kCloseWrites));
    }
  }

  void StartRead() {
    if ((running_ & (kRead | kFinish)) != 0) return;
    if (reads_end_) {
      if (!status_) stream_->Finish(&finish_, Begin(kFinish));
    } else if (reads_.size() < kMaxMessages && reads_bytes_ < kMaxBytes) {
      stream_->Read(&read_, Begin(kRead));
    }
  }

  // How far messages are taken ahead, in each direction.
  static constexpr size_t kMaxMessages = 64;
  static constexpr size_t kMaxBytes = 4 << 20;

  Call call_;
  const std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  unsigned running_ = 0;
  std::deque<grpc::ByteBuffer> writes_;
  size_t writes_bytes_ = 0;
  bool writes_close_ = false;  // after those
  bool writes_end_ = false;    // no more can be sent
  bool writer_waits_ = false;
  grpc::ByteBuffer read_;
  std::deque<grpc::ByteBuffer> reads_;
  size_t reads_bytes_ = 0;
  bool reads_end_ = false;
  grpc::Status finish_;
  std::optional<grpc::Status> status_;
};

class Channel {
 public:
  // `pem` has the authorities, the key and the certificate for TLS.
  Channel(const std::string& target, const Options& options,
          const std::optional<Pem>& pem) {
    grpc::ChannelArguments arguments;
    for (const auto& [name, value] : options) {
      // Clang 14 captures no structured binding.
      const auto set = [&, &name = name](const auto& one) {
        Set(arguments, name, one);
      };
      std::visit(set, value);
    }
    shared_ = std::make_shared<Shared>(grpc::CreateCustomChannel(
        target,
        pem ? grpc::SslCredentials({(*pem)[0].value_or(""),
                                    (*pem)[1].value_or(""),
                                    (*pem)[2].value_or("")})
            : grpc::InsecureChannelCredentials(),
        arguments));
  }

  py::tuple Call(const std::string& method, const py::bytes& request,
                 std::optional<double> timeout, const Metadata& metadata) {
    return Unary(shared_, method, request, timeout, metadata);
  }

  std::unique_ptr<Stream> Open(const std::string& method,
                               std::optional<double> timeout,
                               const Metadata& metadata) {
    return std::make_unique<Stream>(shared_, method, timeout, metadata);
  }

  // Calls in flight end with CANCELLED.
  void Close() {
    shared_->closed = true;
    for (grpc::ClientContext* call : shared_->calls) call->TryCancel();
  }

 private:
  static void Set(grpc::ChannelArguments& arguments, const std::string& name,
                  int value) {
    arguments.SetInt(name, value);
  }
  static void Set(grpc::ChannelArguments& arguments, const std::string& name,
                  const std::string& value) {
    arguments.SetString(name, value);
  }

  std::shared_ptr<Shared> shared_;
};

}  // namespace

PYBIND11_MODULE(topk_client_transport, module) {
  module.doc() = "gRPC's C++ library for topk_client, which uses it if present";
  py::class_<End>(module, "End")
      .def_readonly("code", &End::code)
      .def_property_readonly(
          "details",
          [](const End& end) {
            return py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(
                end.details.data(), static_cast<Py_ssize_t>(end.details.size()),
                "replace"));
          })
      .def_readonly("trailers", &End::trailers);
  py::class_<Stream>(module, "Stream")
      .def("write", &Stream::Write)
      .def("close_writes", &Stream::CloseWrites)
      .def("cancel", &Stream::Cancel)
      .def("read", &Stream::Read)
      .def("end", &Stream::end);
  py::class_<Channel>(module, "Channel")
      .def(py::init<const std::string&, const Options&,
                    const std::optional<Pem>&>())
      .def("call", &Channel::Call)
      .def("open", &Channel::Open)
      .def("close", &Channel::Close);
}

}  // namespace topk
