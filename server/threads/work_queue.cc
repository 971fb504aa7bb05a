#include "server/threads/work_queue.h"

#include <system_error>

#include "core/base/happens_before.h"
#include "core/base/text.h"

namespace topk {

WorkQueue::WorkQueue(int threads, std::chrono::nanoseconds slice)
    : threads_(threads),
      slice_(slice),
      speed_(threads),
      all_workers_(tbb::global_control::max_allowed_parallelism,
                   static_cast<size_t>(threads) + 1),
      workers_(threads, /*reserved_for_masters=*/0) {
  spares_.reserve(kMaxSpares);
  const MutexLock lock(mutex_);
  WakeSpare();
}

WorkQueue::~WorkQueue() {
  enqueued_.Wait();
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  watch_.notify_all();
  sleep_.notify_all();
  for (std::thread& spare : spares_) spare.join();
}

void WorkQueue::Enqueue(std::string_view client, Size nanoseconds, Work work) {
  auto job = std::make_unique<Job>(
      Job{std::move(work), Bounded(nanoseconds), enqueued_.Add()});
  bool hand_over = false;
  bool wake = false;
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
      of.waits_since = now;
    }
    of.queued.push_back(std::move(job));
    ++jobs_;
    hand_over = handed_ < jobs_ - running_;
    if (hand_over && handed_++ == 0) progress_ = now;
    wake = idle_ || now - progress_ >= slice_;
  }
  if (hand_over) {
    workers_.enqueue(
        HandedOver([this, member = enqueued_.Add()] { RunNext(); }));
  }
  if (wake) watch_.notify_one();
  WidenRace();
}

std::unique_ptr<WorkQueue::Job> WorkQueue::Take(Turns::iterator turn,
                                                Clock::time_point now) {
  Client& client = turn->second->second;
  std::unique_ptr<Job> job = std::move(client.queued.front());
  client.queued.pop_front();
  // Do not advance turn_ for a job that a spare thread takes out of turn. If
  // the client's turn is later than turn_, move it back to turn_, where new
  // clients start. Otherwise, the client would fall behind new clients.
  if (turn == turns_.begin()) turn_ = std::max(turn_, turn->first);
  client.served = std::min(client.served, turn_);
  client.waits_since = now;
  ForgetIdleClients();
  if (client.queued.empty()) turns_.erase(turn);
  Charge(client, static_cast<double>(job->cost));
  Advance(now);
  ++client.running;
  ++running_;
  job->begun = share_;
  job->begun_thread_time = thread_time_;
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

void WorkQueue::Advance(Clock::time_point now) {
  const auto elapsed = static_cast<double>(
      std::chrono::nanoseconds(now - shared_until_).count());
  if (running_ > 0) {
    const auto running = static_cast<double>(running_);
    share_ += elapsed / running;
    thread_time_ += elapsed * std::min(1.0, threads_ / running);
  }
  shared_until_ = now;
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
  const MutexLock lock(mutex_);
  Advance(Clock::now());
  const auto cost = static_cast<double>(job->cost);
  const double taken = std::max(share_ - job->begun, 1.0);
  if (done && job->cost >= kTimedNanoseconds) {
    constexpr double kWindow = 1e9;
    worked_ += cost;
    elapsed_ += taken;
    speed_ = worked_ / elapsed_;
    if (elapsed_ > kWindow) {
      worked_ /= 2;
      elapsed_ /= 2;
    }
  }
  --running_;
  --jobs_;
  Client& client = job->client->second;
  client.pending -= job->cost;
  // Correct the charge for the job. The charge is the estimated cost, but at
  // least `used`, and for finished work at most `used * threads_`.
  const double used = thread_time_ - job->begun_thread_time;
  const double most = done ? std::min(cost, used * threads_) : cost;
  Charge(client, std::max(used, most) - cost);
  if (--client.running > 0 || !client.queued.empty()) return;
  client.turn = idle_clients_.emplace(client.served, job->client);
  if (idle_clients_.size() < clients_.size()) return;
  idle_clients_.clear();
  clients_.clear();
  turn_ = 0;
}

void WorkQueue::RunNext() noexcept {
  std::unique_ptr<Job> job;
  {
    const MutexLock lock(mutex_);
    --handed_;
    progress_ = Clock::now();
    // A spare thread may have taken the job.
    if (!turns_.empty()) job = Take(turns_.begin(), progress_);
  }
  if (job != nullptr) Run(std::move(job));
}

// Returns the free slot with the lowest limit that accepts work of this cost,
// or kMaxSpares if no such slot is free.
size_t WorkQueue::FreeSlot(int64_t cost) const {
  size_t slot = 0;
  while (slot + 1 < kMaxSpares &&
         cost <= (kLongestSlices * slice_.count()) >> (slot + 1)) {
    ++slot;
  }
  while (used_slots_[slot]) {
    if (slot-- == 0) return kMaxSpares;
  }
  return slot;
}

// Takes the next job of the client that has waited longest. Ignores clients
// that use their share of the threads or whose next job has no free slot.
std::unique_ptr<WorkQueue::Job> WorkQueue::TakeOverdue(Clock::time_point now) {
  // The number of clients with work. 0 if other threads have run all jobs.
  const auto clients =
      static_cast<int64_t>(clients_.size() - idle_clients_.size());
  const int64_t share =
      clients < 2 ? 1 : std::max<int64_t>(threads_ / clients, 1);
  auto next = turns_.end();
  for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
    const Client& client = turn->second->second;
    if (client.running < share &&
        (next == turns_.end() ||
         client.waits_since < next->second->second.waits_since) &&
        FreeSlot(client.queued.front()->cost) < kMaxSpares) {
      next = turn;
    }
  }
  if (next == turns_.end()) return nullptr;
  std::unique_ptr<Job> job = Take(next, now);
  job->slot = FreeSlot(job->cost);
  used_slots_.set(job->slot);
  return job;
}

// Waits for overdue work and takes it. Returns null once the queue is closing.
std::unique_ptr<WorkQueue::Job> WorkQueue::AwaitOverdue() {
  while (!closing_) {
    const Clock::time_point now = Clock::now();
    const Clock::time_point overdue = progress_ + slice_;
    if (now < overdue) {
      watch_.wait_until(mutex_, overdue);
    } else if (handed_ == 0) {
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
    const size_t slot = job->slot;
    WakeSpare();
    mutex_.unlock();
    Run(std::move(job));
    mutex_.lock();
    used_slots_.reset(slot);
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
