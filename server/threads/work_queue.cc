#include "server/threads/work_queue.h"

#include <system_error>

#include "core/base/happens_before.h"
#include "core/base/text.h"

namespace topk {

WorkQueue::WorkQueue(int threads, std::chrono::nanoseconds slice)
    : threads_(threads),
      slice_(slice),
      progress_(Clock::now()),
      speed_(threads) {
  spares_.reserve(kMaxSpares);
  const MutexLock lock(mutex_);
  for (int i = 0; i < threads; ++i) {
    Worker& worker = workers_.emplace_back();
    worker.thread = std::thread([this, &worker] { RunJobs(worker); });
  }
  WakeSpare();
}

WorkQueue::~WorkQueue() {
  {
    const MutexLock lock(mutex_);
    while (jobs_ > 0) done_.wait(mutex_);
    closing_ = true;
  }
  watch_.notify_all();
  sleep_.notify_all();
  for (Worker& worker : workers_) {
    worker.wake.notify_one();
    worker.thread.join();
  }
  for (std::thread& spare : spares_) spare.join();
}

void WorkQueue::Enqueue(std::string_view client, Size nanoseconds, Work work) {
  auto job = std::make_unique<Job>(Job{std::move(work), Bounded(nanoseconds)});
  Worker* worker = nullptr;
  bool wake_watcher = false;
  {
    const MutexLock lock(mutex_);
    const Clock::time_point now = Clock::now();
    auto entry = clients_.find(client);
    const bool is_new = entry == clients_.end();
    if (is_new) entry = clients_.try_emplace(std::string(client)).first;
    Client& of = entry->second;
    job->client = &*entry;
    of.pending += job->cost;
    if (of.queued.empty()) {
      if (!is_new && of.running == 0) idle_clients_.erase(of.turn);
      of.served = std::max(of.served, turn_);
      of.turn = turns_.emplace(of.served, &*entry);
    }
    of.queued.push_back(std::move(job));
    ++jobs_;
    if (idle_workers_.empty()) {
      wake_watcher = idle_ || now - progress_ >= slice_;
    } else {
      worker = idle_workers_.back();
      idle_workers_.pop_back();
      worker->is_idle = false;
      progress_ = now;
    }
  }
  if (worker != nullptr) worker->wake.notify_one();
  if (wake_watcher) watch_.notify_one();
  WidenRace();
}

std::unique_ptr<WorkQueue::Job> WorkQueue::Take(Turns::iterator turn,
                                                Clock::time_point now) {
  Client& client = turn->second->second;
  std::unique_ptr<Job> job = std::move(client.queued.front());
  client.queued.pop_front();
  // A spare thread may have taken a job of a later turn before.
  turn_ = std::max(turn_, turn->first);
  ForgetIdleClients();
  if (client.queued.empty()) turns_.erase(turn);
  Charge(client, static_cast<double>(job->cost));
  ++client.running;
  ++running_;
  job->begun = now;
  return job;
}

// Removes idle clients whose next turn is turn_ or earlier. Keeps other idle
// clients, so that no client gains an earlier turn by pausing. If more than
// kMaxIdle clients are idle, removes those with the earliest turns.
void WorkQueue::ForgetIdleClients() {
  constexpr size_t kMaxIdle = 1024;
  while (!idle_clients_.empty() && (idle_clients_.begin()->first <= turn_ ||
                                    idle_clients_.size() > kMaxIdle)) {
    clients_.erase(clients_.find(idle_clients_.begin()->second->first));
    idle_clients_.erase(idle_clients_.begin());
  }
}

// Charges the client for `nanoseconds` of work, which delays its next turn.
void WorkQueue::Charge(Client& client, double nanoseconds) {
  client.served += nanoseconds;
  if (client.queued.empty()) return;
  Turns::node_type node = turns_.extract(client.turn);
  node.key() = client.served;
  client.turn = turns_.insert(std::move(node));
}

void WorkQueue::Run(std::unique_ptr<Job> job) noexcept {
  const bool done = job->work();
  // Release the captured objects before the job counts as done: the queue's
  // owner may destroy what they refer to after the queue.
  job->work = nullptr;
  const MutexLock lock(mutex_);
  const auto cost = static_cast<double>(job->cost);
  const auto elapsed = static_cast<double>(
      std::chrono::nanoseconds(Clock::now() - job->begun).count());
  if (done && job->cost >= kTimedNanoseconds) {
    constexpr double kWindow = 1e9;
    worked_ += cost;
    elapsed_ += std::max(elapsed / static_cast<double>(running_), 1.0);
    speed_ = worked_ / elapsed_;
    if (elapsed_ > kWindow) {
      worked_ /= 2;
      elapsed_ /= 2;
    }
  }
  --running_;
  if (--jobs_ == 0) done_.notify_all();
  if (job->is_long_spare) --long_spares_;
  Client& client = job->client->second;
  client.pending -= job->cost;
  Charge(client, std::max(elapsed - cost, 0.0));
  if (--client.running > 0 || !client.queued.empty()) return;
  client.turn = idle_clients_.emplace(client.served, job->client);
  if (idle_clients_.size() < clients_.size()) return;
  idle_clients_.clear();
  clients_.clear();
  turn_ = 0;
}

void WorkQueue::RunJobs(Worker& self) noexcept {
  const MutexLock lock(mutex_);
  while (!closing_) {
    if (turns_.empty()) {
      self.is_idle = true;
      idle_workers_.push_back(&self);
      while (self.is_idle && !closing_) self.wake.wait(mutex_);
      continue;
    }
    progress_ = Clock::now();
    std::unique_ptr<Job> job = Take(turns_.begin(), progress_);
    mutex_.unlock();
    Run(std::move(job));
    mutex_.lock();
  }
}

// Takes the next job that a spare thread may run, in order of turns. Skips
// clients that use their share of the threads.
std::unique_ptr<WorkQueue::Job> WorkQueue::TakeOverdue(Clock::time_point now) {
  // The number of clients with work. 0 if other threads have run all jobs.
  const auto clients =
      static_cast<int64_t>(clients_.size() - idle_clients_.size());
  const int64_t share =
      clients < 2 ? 1 : std::max<int64_t>(threads_ / clients, 1);
  for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
    const Client& client = turn->second->second;
    const bool is_long =
        client.queued.front()->cost > kLongSlices * slice_.count();
    if (client.running >= share ||
        (is_long && long_spares_ == kMaxLongSpares)) {
      continue;
    }
    std::unique_ptr<Job> job = Take(turn, now);
    job->is_long_spare = is_long;
    if (is_long) ++long_spares_;
    return job;
  }
  return nullptr;
}

// Waits for overdue work and takes it. Returns null once the queue is closing.
std::unique_ptr<WorkQueue::Job> WorkQueue::AwaitOverdue() {
  while (!closing_) {
    const Clock::time_point now = Clock::now();
    const Clock::time_point overdue = progress_ + slice_;
    if (now < overdue) {
      watch_.wait_until(mutex_, overdue);
    } else if (turns_.empty()) {
      idle_ = true;
      watch_.wait(mutex_);
      idle_ = false;
    } else if (std::unique_ptr<Job> job = TakeOverdue(now)) {
      return job;
    } else {
      watch_.wait_for(mutex_, slice_);
    }
  }
  return nullptr;
}

void WorkQueue::RunOverdue() noexcept {
  const MutexLock lock(mutex_);
  while (true) {
    ++sleeping_;
    while (!closing_ && watched_) sleep_.wait(mutex_);
    --sleeping_;
    watched_ = true;
    std::unique_ptr<Job> job = AwaitOverdue();
    watched_ = false;
    if (job == nullptr) return;
    WakeSpare();
    mutex_.unlock();
    Run(std::move(job));
    mutex_.lock();
  }
}

// Lets another spare thread watch for overdue work.
void WorkQueue::WakeSpare() {
  if (sleeping_ > 0 || spares_.size() == kMaxSpares) {
    sleep_.notify_one();
    return;
  }
  try {
    spares_.emplace_back([this] { RunOverdue(); });
  } catch (const std::system_error&) {
    // If no thread can be created, the other spare threads watch for overdue
    // work after their current jobs.
  }
}

std::chrono::nanoseconds WorkQueue::Wait(std::string_view client) const {
  if (jobs_ < threads_) return {};
  const MutexLock lock(mutex_);
  const auto entry = clients_.find(client);
  if (entry == clients_.end()) return {};
  // Upper bound on all work that runs until this client's work is done. In that
  // time, fair queueing lets no other client do more work than this client.
  double work = 0;
  for (const auto& [name, other] : clients_) {
    work += static_cast<double>(std::min(other.pending, entry->second.pending));
  }
  const double wait = work / speed_;
  return std::chrono::nanoseconds(Size::Of(std::min(wait, 1e15)).value());
}

Status WorkQueue::CheckDeadline(
    std::string_view client,
    std::chrono::system_clock::time_point deadline) const {
  using std::chrono::milliseconds;
  const auto wait = std::chrono::duration_cast<milliseconds>(Wait(client));
  if (wait.count() == 0) return {};
  const auto left = std::chrono::duration_cast<milliseconds>(
      deadline - std::chrono::system_clock::now());
  if (wait <= left) return {};
  return ResourceExhausted(
      "DEADLINE_TOO_SHORT", "server",
      StrCat("this client's queued work will finish in ", wait.count(),
             " ms, but the deadline is in ", left.count(), " ms"),
      wait);
}

}  // namespace topk
