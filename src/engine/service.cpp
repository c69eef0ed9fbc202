// SPDX-License-Identifier: GPL-2.0-or-later
#include "engine/service.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "common/base/quoted.hpp"
#include "common/wire/budgets_json.hpp"
#include "common/wire/credential.hpp"
#include "common/wire/envelope.hpp"
#include "engine/answers.hpp"
#include "engine/contract_answers.hpp"
#include "engine/own_answers.hpp"
#include "engine/real_clock.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kListenAgainMilliseconds = 3000;
constexpr std::int64_t kLogPauseMilliseconds = 10000;
constexpr std::int64_t kAnswerMilliseconds = 60000;   // then nobody waits for the answer any more
constexpr std::int64_t kFarewellMilliseconds = 1000;  // for a stranger to read what was wrong
constexpr std::size_t kNoncesKept = 100000;
constexpr std::int64_t kLargestList = 100000;
constexpr std::size_t kRunsSearched = 200;

class Descriptor {
  public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor() {
        if (number_ >= 0) {
            close(number_);
        }
    }
    int number() const noexcept { return number_; }
    bool open() const noexcept { return number_ >= 0; }

  private:
    int number_ = -1;
};

std::string why() {
    return std::strerror(errno);
}

// All addresses of the machine; IPv4 alone where there is no IPv6.
Result<Descriptor> listen_on(int port) {
    for (const int family : {AF_INET6, AF_INET}) {
        Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!socket.open()) {
            continue;
        }
        const int on = 1, off = 0;
        setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        int failed = 0;
        if (family == AF_INET6) {
            setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
            sockaddr_in6 address{};
            address.sin6_family = AF_INET6;
            address.sin6_addr = in6addr_any;
            address.sin6_port = htons(static_cast<std::uint16_t>(port));
            failed = bind(socket.number(), reinterpret_cast<sockaddr*>(&address), sizeof address);
            if (failed != 0 && errno != EADDRINUSE && errno != EACCES) {
                continue;
            }
        } else {
            sockaddr_in address{};
            address.sin_family = AF_INET;
            address.sin_addr.s_addr = htonl(INADDR_ANY);
            address.sin_port = htons(static_cast<std::uint16_t>(port));
            failed = bind(socket.number(), reinterpret_cast<sockaddr*>(&address), sizeof address);
        }
        if (failed == 0) {
            failed = listen(socket.number(), 64);
        }
        if (failed != 0) {
            return Error{"ServicePort " + std::to_string(port) + " cannot be listened on: " +
                         why() + "; it is tried again every few seconds"};
        }
        return socket;
    }
    return Error{"no socket for ServicePort " + std::to_string(port) + ": " + why()};
}

int port_of(const Descriptor& socket) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getsockname(socket.number(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
        return 0;
    }
    return address.ss_family == AF_INET6
               ? ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port)
               : ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

// slurmctld's signals are for its own threads.
template <typename Body>
std::thread quiet_thread(const char* name, Body body) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread thread;
    try {
        thread = std::thread(std::move(body));
    } catch (...) {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_setname_np(thread.native_handle(), name);
    return thread;
}

// A connection: it sends one request, is answered and closed.
struct Client {
    enum class Stage { reading, answering, writing, draining };
    Descriptor socket;
    Stage stage = Stage::reading;
    std::string in;
    std::string out;
    std::size_t out_at = 0;
    std::int64_t stage_ends_at = 0;
    std::int64_t stalled_at = 0;
    bool stranger = false;  // gets no more than what is wrong
    std::optional<std::uint32_t> counted_uid;
};

struct Work {
    std::uint64_t client = 0;
    std::string credential;
};

struct Done {
    std::uint64_t client = 0;
    std::string out;
    std::optional<std::uint32_t> counted_uid;
};

}  // namespace

// Shared by the threads; outlives the Service where munged holds a worker up.
class Service::State {
  public:
    State(std::shared_ptr<ServiceSource> source, const ServiceLimits& limits, int port,
          std::string munge_socket, std::uint32_t slurm_uid, std::string cluster)
        : source_(std::move(source)),
          limits_(limits),
          wanted_port_(port),
          munge_socket_(std::move(munge_socket)),
          slurm_uid_(slurm_uid),
          cluster_(std::move(cluster)) {}

    static Status start(const std::shared_ptr<State>& state) {
        state->wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!state->wake_.open()) {
            return Error{"the query service cannot start: eventfd: " + why()};
        }
        state->started_at_ = state->source_->now();
        const Status status = state->try_to_listen();
        state->poller_ = quiet_thread("tranche-poll", [state] { state->poll_clients(); });
        for (std::size_t i = 0; i < state->limits_.workers; ++i) {
            {
                const std::lock_guard lock(state->mutex_);
                ++state->workers_left_;
            }
            state->workers_.push_back(quiet_thread("tranche-answer", [state] { state->work(); }));
        }
        return status;
    }

    void stop() {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        work_ready_.notify_all();
        wake_poller();
        if (poller_.joinable()) {
            poller_.join();
        }
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return inside_source_ == 0; });
        const auto all_left = [this] { return workers_left_ == 0; };
        const std::int64_t patience_ends_at = real_milliseconds() + 2000;
        while (!all_left() && real_milliseconds() < patience_ends_at) {
            changed_.wait_for(lock, std::chrono::milliseconds(20), all_left);
        }
        const bool left = all_left();
        lock.unlock();
        for (std::thread& worker : workers_) {
            if (left) {
                worker.join();
            } else {
                worker.detach();
            }
        }
    }

    int port() const {
        const std::lock_guard lock(mutex_);
        return port_;
    }

  private:
    // --- the polling thread ------------------------------------------------------------------

    Status try_to_listen() {
        auto socket = listen_on(wanted_port_);
        if (!socket.ok()) {
            return socket.failure();
        }
        listener_ = std::move(socket).value();
        const std::lock_guard lock(mutex_);
        port_ = port_of(listener_);
        return {};
    }

    void poll_clients() noexcept {
        std::int64_t listen_again_at = real_milliseconds() + kListenAgainMilliseconds;
        while (!is_stopping()) {
            try {
                if (!listener_.open() && real_milliseconds() >= listen_again_at) {
                    listen_again_at = real_milliseconds() + kListenAgainMilliseconds;
                    if (try_to_listen().ok()) {
                        log(Host::LogLevel::info,
                            "the query service listens on port " + std::to_string(port()));
                    }
                }
                poll_once();
            } catch (const std::exception& e) {
                source_->fault("query service", e.what());
                drop_all();
            }
        }
        drop_all();
        listener_ = Descriptor();
        const std::lock_guard lock(mutex_);
        port_ = 0;
    }

    void poll_once() {
        std::vector<pollfd> polled;
        std::vector<std::uint64_t> ids;
        polled.push_back({wake_.number(), POLLIN, 0});
        polled.push_back({listener_.number(), POLLIN, 0});  // ignored while negative
        std::int64_t wait = listener_.open() ? 60000 : kListenAgainMilliseconds;
        const std::int64_t before = real_milliseconds();
        for (auto& [id, client] : clients_) {
            const short events = client.stage == Client::Stage::reading    ? POLLIN
                                 : client.stage == Client::Stage::draining ? POLLIN
                                 : client.stage == Client::Stage::writing  ? POLLOUT
                                                                           : 0;
            // One that waits for its answer is polled too: its hanging up is noticed.
            polled.push_back({client.socket.number(), events, 0});
            ids.push_back(id);
            wait = std::min(wait, deadline_of(client) - before);
        }
        real_poll(polled.data(), polled.size(), std::max<std::int64_t>(wait, 0));
        const std::int64_t now = real_milliseconds();
        if (polled[0].revents != 0) {
            std::uint64_t count = 0;
            [[maybe_unused]] const auto read_bytes = read(wake_.number(), &count, sizeof count);
        }
        take_done(now);
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const auto it = clients_.find(ids[i]);
            if (it == clients_.end()) {
                continue;
            }
            Client& client = it->second;
            const short events = polled[i + 2].revents;
            bool keep = (events & (POLLERR | POLLNVAL)) == 0;
            if (keep && client.stage == Client::Stage::reading && (events & (POLLIN | POLLHUP))) {
                keep = read_more(ids[i], client);
            } else if (keep && client.stage == Client::Stage::writing && (events & POLLOUT)) {
                keep = write_more(client, now);
            } else if (keep && client.stage == Client::Stage::draining && (events & POLLIN)) {
                keep = discard(client);
            } else if (keep && client.stage != Client::Stage::reading && (events & POLLHUP)) {
                keep = false;
            }
            keep = keep && now < deadline_of(client);
            if (!keep) {
                drop(it->first);
            }
        }
        if (polled[1].revents != 0) {
            accept_clients(now);
        }
    }

    std::int64_t deadline_of(const Client& client) const {
        return client.stage == Client::Stage::writing
                   ? std::min(client.stage_ends_at,
                              client.stalled_at + limits_.stalled_milliseconds)
                   : client.stage_ends_at;
    }

    void accept_clients(std::int64_t now) {
        for (;;) {
            Descriptor socket(
                accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (!socket.open()) {
                if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                    // Out of descriptors: make room, so that the listener does not spin.
                    if (!drop_oldest_stranger()) {
                        usleep(10000);
                    }
                }
                return;
            }
            if (clients_.size() >= limits_.clients && !drop_oldest_stranger()) {
                continue;  // everybody here has proved who he is: the new one has to come again
            }
            const int on = 1;
            setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            Client client;
            client.socket = std::move(socket);
            client.stage_ends_at = now + limits_.request_milliseconds;
            clients_.emplace(++last_client_, std::move(client));
        }
    }

    // Connections that have not proved who they are make room for new ones, the oldest first.
    bool drop_oldest_stranger() {
        for (const auto& [id, client] : clients_) {  // ids grow with time
            if (client.stage == Client::Stage::reading) {
                drop(id);
                return true;
            }
        }
        return false;
    }

    bool read_more(std::uint64_t id, Client& client) {
        char buffer[65536];
        for (;;) {
            const ssize_t got = recv(client.socket.number(), buffer, sizeof buffer, 0);
            if (got < 0) {
                return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
            }
            if (got == 0) {
                return false;  // truncated: nobody is there to be told
            }
            client.in.append(buffer, static_cast<std::size_t>(got));
            if (client.in.size() < kFrameHeaderBytes) {
                continue;
            }
            const auto length = frame_length(client.in, kLongestRequestBytes);
            if (!length.ok()) {
                answer_stranger(client, "the request is " + length.error());
                return true;
            }
            const std::size_t whole = kFrameHeaderBytes + *length;
            if (client.in.size() > whole) {
                answer_stranger(client, "bytes follow the request; one a connection is right");
                return true;
            }
            if (client.in.size() == whole) {
                {
                    const std::lock_guard lock(mutex_);
                    if (work_.size() < limits_.clients) {
                        work_.push_back({id, client.in.substr(kFrameHeaderBytes)});
                        client.stage = Client::Stage::answering;
                    }
                }
                if (client.stage != Client::Stage::answering) {
                    answer_stranger(client, "the controller is busy; try again in a moment");
                    return true;
                }
                client.stage_ends_at = real_milliseconds() + kAnswerMilliseconds;
                client.in = {};
                work_ready_.notify_one();
                return true;
            }
        }
    }

    // To one who has not proved who he is: nothing but what is wrong with his request.
    void answer_stranger(Client& client, const std::string& text) {
        client.in = {};
        client.stranger = true;
        begin_writing(client, framed(std::string(kStrangerMark) + text), real_milliseconds());
    }

    void begin_writing(Client& client, std::string out, std::int64_t now) {
        client.stage = Client::Stage::writing;
        client.out = std::move(out);
        client.stalled_at = now;
        client.stage_ends_at = now + limits_.reply_milliseconds;
    }

    bool write_more(Client& client, std::int64_t now) {
        while (client.out_at < client.out.size()) {
            const ssize_t sent = send(client.socket.number(), client.out.data() + client.out_at,
                                      client.out.size() - client.out_at, MSG_NOSIGNAL);
            if (sent < 0) {
                return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
            }
            client.out_at += static_cast<std::size_t>(sent);
            client.stalled_at = now;
        }
        shutdown(client.socket.number(), SHUT_WR);
        if (!client.stranger) {
            return false;
        }
        // Closing over unread bytes would take the farewell back from the other side.
        client.stage = Client::Stage::draining;
        client.stage_ends_at = now + kFarewellMilliseconds;
        return discard(client);
    }

    static bool discard(Client& client) {
        char buffer[65536];
        for (int i = 0; i < 16; ++i) {
            const ssize_t got = recv(client.socket.number(), buffer, sizeof buffer, 0);
            if (got < 0) {
                return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
            }
            if (got == 0) {
                return false;
            }
        }
        return true;
    }

    void take_done(std::int64_t now) {
        std::vector<Done> done;
        {
            const std::lock_guard lock(mutex_);
            done.swap(done_);
        }
        for (Done& each : done) {
            const auto it = clients_.find(each.client);
            if (it == clients_.end()) {
                release(each.counted_uid, each.out.size());
                continue;
            }
            if (each.out.empty()) {
                release(each.counted_uid, 0);
                clients_.erase(it);
                continue;
            }
            it->second.counted_uid = each.counted_uid;
            begin_writing(it->second, std::move(each.out), now);
            if (!write_more(it->second, now)) {
                drop(it->first);
            }
        }
    }

    void drop(std::uint64_t id) {
        const auto it = clients_.find(id);
        // Its answer is on the way: take_done() sees that nobody waits for it.
        if (it->second.stage == Client::Stage::writing) {
            release(it->second.counted_uid, it->second.out.size());
        }
        clients_.erase(it);
    }

    void drop_all() {
        while (!clients_.empty()) {
            drop(clients_.begin()->first);
        }
    }

    void release(const std::optional<std::uint32_t>& uid, std::size_t bytes) {
        if (!uid) {
            return;
        }
        const std::lock_guard lock(mutex_);
        reply_bytes_ -= std::min(reply_bytes_, bytes);
        if (const auto it = by_uid_.find(*uid); it != by_uid_.end() && --it->second == 0) {
            by_uid_.erase(it);
        }
    }

    // --- workers -----------------------------------------------------------------------------

    void work() noexcept {
        try {
            Munge munge(munge_socket_);
            Work work;
            while (next_work(work)) {
                Done done;
                done.client = work.client;
                try {
                    done.out = answer(munge, work.credential, done.counted_uid);
                } catch (const std::exception& e) {
                    // Whoever asked gets no answer; what went wrong is counted.
                    done.out.clear();
                    Inside inside(*this);
                    if (inside.allowed()) {
                        source_->fault("query service", e.what());
                    }
                }
                {
                    const std::lock_guard lock(mutex_);
                    done_.push_back(std::move(done));
                }
                wake_poller();
            }
        } catch (...) {
            // Out of memory before the first request: this worker is lost, the others go on.
        }
        {
            const std::lock_guard lock(mutex_);
            --workers_left_;
        }
        changed_.notify_all();
    }

    bool next_work(Work& work) {
        std::unique_lock lock(mutex_);
        work_ready_.wait(lock, [this] { return stopping_ || !work_.empty(); });
        if (stopping_) {
            return false;
        }
        work = std::move(work_.front());
        work_.pop_front();
        return true;
    }

    // While one is alive, stop() waits: the engine is there.
    class Inside {
      public:
        explicit Inside(State& state) : state_(state) {
            const std::lock_guard lock(state_.mutex_);
            allowed_ = !state_.stopping_;
            if (allowed_) {
                ++state_.inside_source_;
            }
        }
        ~Inside() {
            if (allowed_) {
                {
                    const std::lock_guard lock(state_.mutex_);
                    --state_.inside_source_;
                }
                state_.changed_.notify_all();
            }
        }
        Inside(const Inside&) = delete;
        Inside& operator=(const Inside&) = delete;
        bool allowed() const { return allowed_; }

      private:
        State& state_;
        bool allowed_ = false;
    };

    std::string stranger_reply(const std::string& text) {
        complain(text);
        return framed(std::string(kStrangerMark) + text);
    }

    // Bytes to send; empty: hang up.
    std::string answer(Munge& munge, const std::string& credential,
                       std::optional<std::uint32_t>& counted_uid) {
        if (credential.find('\0') != std::string::npos) {
            return stranger_reply("the request is not a munge credential");
        }
        const auto opened = munge.decode(credential);
        if (!opened.ok()) {
            return stranger_reply(opened.error());
        }
        const std::uint32_t uid = opened->uid;
        const auto request = parse_request(opened->payload);
        if (!request.ok()) {
            return stranger_reply(request.error());
        }
        Reply reply;
        if (!count_user(uid)) {
            reply.error = "too many requests of yours are being answered; at most " +
                          std::to_string(limits_.clients_per_user) + " at once";
        } else {
            counted_uid = uid;
            try {
                auto result = judge_and_call(uid, opened->encoded_at, *request);
                if (result.ok()) {
                    reply.ok = true;
                    reply.result = *result;
                } else {
                    reply.error = result.error();
                }
            } catch (const std::exception& e) {
                Inside inside(*this);
                if (inside.allowed()) {
                    source_->fault("query service", e.what());
                }
                reply.ok = false;
                reply.error = "an internal fault; slurmctld's log and srank --health say more";
            }
        }
        return encoded(munge, reply, *request, uid, counted_uid);
    }

    std::string encoded(Munge& munge, const Reply& reply, const Request& request, std::uint32_t uid,
                        const std::optional<std::uint32_t>& counted_uid) {
        std::string text = reply_text(reply);
        if (text.size() > kLongestReplyBytes) {
            text = reply_text({false, Json(),
                               "the answer would be longer than " +
                                   std::to_string(kLongestReplyBytes >> 20) +
                                   " MiB; narrow the question"});
        }
        std::string out;
        for (const std::string& part : reply_parts(text, request.nonce)) {
            const auto credential = munge.encode(part, uid);
            if (!credential.ok()) {
                return stranger_reply("the controller's " + credential.error());
            }
            out += framed(*credential);
        }
        if (counted_uid) {
            const std::lock_guard lock(mutex_);
            if (reply_bytes_ + out.size() > limits_.waiting_reply_bytes) {
                return {};  // others must take theirs first
            }
            reply_bytes_ += out.size();
        }
        return out;
    }

    bool count_user(std::uint32_t uid) {
        const std::lock_guard lock(mutex_);
        const auto it = by_uid_.find(uid);
        if (it != by_uid_.end() && it->second >= limits_.clients_per_user) {
            return false;
        }
        ++by_uid_[uid];
        return true;
    }

    // munged remembers credentials for their lifetime; we remember nonces too, for a credential
    // that was decoded by another munged (a backup controller's) is not in ours.
    bool is_new(const std::string& nonce) {
        const std::lock_guard lock(mutex_);
        if (!nonces_.insert(nonce).second) {
            return false;
        }
        nonce_order_.push_back(nonce);
        if (nonce_order_.size() > kNoncesKept) {
            nonces_.erase(nonce_order_.front());
            nonce_order_.pop_front();
        }
        return true;
    }

    Result<Json> judge_and_call(std::uint32_t uid, std::int64_t encoded_at,
                                const Request& request) {
        if (request.cluster != cluster_) {
            return Error{"the request is for cluster " + quoted(request.cluster) + ", this is " +
                         quoted(cluster_)};
        }
        if (!is_new(request.nonce)) {
            return Error{"the request was answered before"};
        }
        Inside inside(*this);
        if (!inside.allowed()) {
            return Error{"the controller is stopping"};
        }
        Viewer viewer;
        viewer.uid = uid;
        viewer.user = source_->user_name(uid);
        viewer.is_operator = uid == 0 || uid == slurm_uid_ || source_->is_operator(uid);
        if (viewer.user.empty()) {
            viewer.user = uid == 0 ? "root" : "";
        }
        if (!viewer.is_operator) {
            viewer.jobs_private = source_->is_private("jobs");
            viewer.usage_private = source_->is_private("usage") || source_->is_private("accounts");
        }
        return call(viewer, encoded_at, request);
    }

    Result<Json> call(const Viewer& viewer, std::int64_t encoded_at, const Request& request) {
        const Json& arguments = request.arguments;
        if (request.method == "edit") {
            return edit(viewer, encoded_at, arguments);
        }
        if (request.method == "contract" || request.method == "checkpointed") {
            return change_contract(viewer, encoded_at, request);
        }
        const auto view = source_->view();
        if (view == nullptr || view->tree == nullptr || view->settings == nullptr) {
            return Error{"the engine has not finished its first cycle; try again in a moment"};
        }
        ObjectReader reader(arguments, "arguments");
        if (request.method == "tree" || request.method == "dump" || request.method == "health" ||
            request.method == "snapshot") {
            if (const Status status = reader.finish(); !status.ok()) {
                return status.failure();
            }
            if (request.method == "tree") {
                return answer_tree(*view, viewer);
            }
            if (request.method == "health") {
                return answer_health(*view);
            }
            if (request.method == "snapshot") {
                return answer_snapshot(*view, viewer);
            }
            if (!viewer.is_operator && viewer.usage_private) {
                return Error{
                    "PrivateData keeps the whole tree from you; sbudget show tree shows "
                    "your part"};
            }
            return budgets_to_json(*view->tree);
        }
        if (request.method == "budget") {
            reader.require("name");
            const auto name = reader.text("name");
            if (const Status status = reader.finish(); !status.ok()) {
                return status.failure();
            }
            return answer_budget(*view, viewer, *name);
        }
        if (request.method == "queue" || request.method == "running") {
            const auto filter = filter_from_json(arguments);
            if (!filter.ok()) {
                return filter.failure();
            }
            return request.method == "queue" ? answer_queue(*view, viewer, *filter)
                                             : answer_running(*view, viewer, *filter);
        }
        if (request.method == "why") {
            reader.require("job_id");
            const auto job = reader.integer("job_id", 1, UINT32_MAX);
            const auto task = reader.integer("array_task_id", 0, UINT32_MAX);
            const auto offset = reader.integer("het_offset", 0, UINT32_MAX);
            if (const Status status = reader.finish(); !status.ok()) {
                return status.failure();
            }
            JobHistory history;  // where the ledger does not answer: what the view knows
            if (auto known = source_->history(static_cast<std::uint32_t>(*job),
                                              task ? *task : offset.value_or(-1),
                                              offset.has_value(), kRunsSearched);
                known.ok()) {
                history = std::move(known).value();
            }
            return answer_why(*view, viewer, {*job, task.value_or(-1), offset.value_or(-1)},
                              history);
        }
        if (request.method == "me") {
            if (const Status status = reader.finish(); !status.ok()) {
                return status.failure();
            }
            return answer_me(*view, viewer);
        }
        if (request.method == "try") {
            return answer_try(*view, viewer, arguments);
        }
        if (request.method == "edits") {
            const auto most = reader.integer("most", 1, kLargestList);
            if (const Status status = reader.finish(); !status.ok()) {
                return status.failure();
            }
            const auto records = source_->edits(static_cast<std::size_t>(most.value_or(1000)));
            if (!records.ok()) {
                return records.failure();
            }
            return answer_edits(*view, viewer, *records);
        }
        if (request.method == "contract_edits") {
            const auto most = reader.integer("most", 1, kLargestList);
            if (const Status status = reader.finish(); !status.ok()) {
                return status.failure();
            }
            const auto records =
                source_->contract_edits(static_cast<std::size_t>(most.value_or(1000)));
            if (!records.ok()) {
                return records.failure();
            }
            return answer_contract_edits(*view, viewer, *records);
        }
        if (request.method == "preemptions") {
            const auto from = reader.integer("from", 0, INT64_MAX);
            const auto to = reader.integer("to", 0, INT64_MAX);
            const auto most = reader.integer("most", 1, kLargestList);
            if (const Status status = reader.finish(); !status.ok()) {
                return status.failure();
            }
            const auto records =
                source_->preemptions(from.value_or(0), to.value_or(INT64_MAX),
                                     static_cast<std::size_t>(most.value_or(1000)));
            if (!records.ok()) {
                return records.failure();
            }
            return answer_preemptions(*view, viewer, *records);
        }
        return Error{"unknown method " + quoted(request.method) +
                     "; known are tree, budget, dump, edit, edits, contract, contract_edits, "
                     "checkpointed, queue, running, why, me, try, health, preemptions, snapshot"};
    }

    Result<Json> edit(const Viewer& viewer, std::int64_t encoded_at, const Json& arguments) {
        ObjectReader reader(arguments, "arguments");
        reader.require("edit");
        const auto asked = reader.object("edit");
        const bool only_try = reader.boolean("try").value_or(false);
        if (const Status status = reader.finish(); !status.ok()) {
            return status.failure();
        }
        const auto edit = edit_from_json(*asked);
        if (!edit.ok()) {
            return edit.failure();
        }
        // One that the former controller carried out must not be played to this one again.
        if (!only_try && encoded_at < started_at_) {
            return Error{"the edit was asked for before this controller took over; ask again"};
        }
        const Actor actor{viewer.uid, viewer.user, viewer.is_operator};
        if (actor.user.empty()) {
            return Error{"uid " + std::to_string(viewer.uid) + " has no name on the controller"};
        }
        const auto outcome = source_->edit(actor, *edit, only_try);
        if (!outcome.ok()) {
            return outcome.failure();
        }
        if (outcome->applied) {
            for (const BudgetChange& change : outcome->changes) {
                source_->log(Host::LogLevel::info,
                             "budget " + quoted(change.budget) + ": " + change.field + " " +
                                 quoted(change.before, 200) + " -> " + quoted(change.after, 200) +
                                 " by " + quoted(actor.user));
            }
        }
        return answer_edit(*outcome);
    }

    Result<Json> change_contract(const Viewer& viewer, std::int64_t encoded_at,
                                 const Request& request) {
        auto question =
            contract_question_from_json(request.arguments, request.method == "checkpointed");
        if (!question.ok()) {
            return question.failure();
        }
        if (!question->only_try && encoded_at < started_at_) {
            return Error{"the change was asked for before this controller took over; ask again"};
        }
        const Actor actor{viewer.uid, viewer.user, viewer.is_operator};
        const auto outcome = source_->change_contract(actor, std::move(*question));
        if (!outcome.ok()) {
            return outcome.failure();
        }
        return answer_contract(*outcome);
    }

    // --- both --------------------------------------------------------------------------------

    bool is_stopping() const {
        const std::lock_guard lock(mutex_);
        return stopping_;
    }
    void wake_poller() {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = write(wake_.number(), &one, sizeof one);
    }
    void log(Host::LogLevel level, const std::string& text) { source_->log(level, text); }

    // A stranger cannot fill the log.
    void complain(const std::string& text) {
        {
            const std::lock_guard lock(mutex_);
            const std::int64_t now = real_milliseconds();
            if (complained_at_ != 0 && now - complained_at_ < kLogPauseMilliseconds) {
                return;
            }
            complained_at_ = now;
        }
        Inside inside(*this);
        if (inside.allowed()) {
            log(Host::LogLevel::verbose, "query service: a request was refused: " + text);
        }
    }

    const std::shared_ptr<ServiceSource> source_;
    const ServiceLimits limits_;
    const int wanted_port_;
    const std::string munge_socket_;
    const std::uint32_t slurm_uid_;
    const std::string cluster_;
    std::int64_t started_at_ = 0;

    // The polling thread's.
    Descriptor listener_;
    std::map<std::uint64_t, Client> clients_;
    std::uint64_t last_client_ = 0;

    Descriptor wake_;
    std::thread poller_;
    std::vector<std::thread> workers_;

    mutable std::mutex mutex_;  // a leaf; guards what follows
    std::condition_variable work_ready_, changed_;
    bool stopping_ = false;
    int port_ = 0;
    std::size_t inside_source_ = 0;
    std::size_t workers_left_ = 0;
    std::deque<Work> work_;
    std::vector<Done> done_;
    std::unordered_map<std::uint32_t, std::size_t> by_uid_;
    std::size_t reply_bytes_ = 0;
    std::set<std::string> nonces_;
    std::deque<std::string> nonce_order_;
    std::int64_t complained_at_ = 0;
};

Service::Service(std::unique_ptr<ServiceSource> source, const ServiceLimits& limits)
    : source_(std::move(source)), limits_(limits) {}

Service::~Service() {
    stop();
}

Status Service::start(int port, const std::string& munge_socket, std::uint32_t slurm_uid,
                      const std::string& cluster) {
    stop();
    state_ = std::make_shared<State>(source_, limits_, port, munge_socket, slurm_uid, cluster);
    return State::start(state_);
}

void Service::stop() {
    if (state_) {
        state_->stop();
        state_.reset();
    }
}

int Service::port() const noexcept {
    return state_ ? state_->port() : 0;
}

}  // namespace tranche
