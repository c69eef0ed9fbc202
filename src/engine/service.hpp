// SPDX-License-Identifier: GPL-2.0-or-later
// The query service inside the active slurmctld (DESIGN 4.4).
//
// One thread owns all connections and only polls: a slow client costs a descriptor until its time
// is over, never a thread. A few workers decode, answer and encode; munged may block them, nothing
// else waits for them. Every request is a munge credential, used once, and carries the cluster's
// name and a nonce; a reply can be decoded by the asking user only. Answers come from the published
// view; only edits, the ledger's lists and questions of rights go further.
//
// start() and stop() may alternate. stop() returns when no worker is inside the engine any more; a
// worker that munged holds up is left behind, touches nothing any more and ends with it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.hpp"
#include "engine/engine.hpp"

namespace tranche {

// What the service needs of the engine. Any thread.
class ServiceSource {
  public:
    virtual ~ServiceSource() = default;
    virtual std::shared_ptr<const EngineView> view() const = 0;
    virtual Result<EditOutcome> edit(const Actor& actor, const BudgetEdit& edit, bool only_try) = 0;
    virtual Result<std::vector<EditRecord>> edits(std::size_t most) = 0;
    virtual Result<ContractOutcome> change_contract(const Actor& actor,
                                                    ContractQuestion question) = 0;
    virtual Result<std::vector<ContractEditRow>> contract_edits(std::size_t most) = 0;
    virtual Result<std::vector<PreemptionRecord>> preemptions(std::int64_t from, std::int64_t to,
                                                              std::size_t most) = 0;
    virtual Result<JobHistory> history(std::uint32_t id, std::int64_t part, bool is_component,
                                       std::size_t most) = 0;
    virtual bool is_operator(std::uint32_t uid) = 0;
    virtual std::string user_name(std::uint32_t uid) = 0;  // empty: unknown
    virtual bool is_private(std::string_view word) = 0;    // PrivateData
    virtual std::int64_t now() = 0;
    virtual void log(Host::LogLevel level, std::string_view text) = 0;
    virtual void fault(const char* where, const char* what) = 0;
};

struct ServiceLimits {
    std::int64_t request_milliseconds = 5000;  // for a whole request to arrive
    std::int64_t stalled_milliseconds = 5000;  // of a reply that nobody takes
    std::int64_t reply_milliseconds = 120000;  // for a whole reply to be taken
    std::size_t clients = 128;                 // at once, in any state
    std::size_t clients_per_user = 8;          // once it is known who asks
    std::size_t workers = 3;
    std::size_t waiting_reply_bytes = std::size_t{256} << 20;  // encoded, not yet taken
};

class Service {
  public:
    explicit Service(Engine& engine);
    Service(std::unique_ptr<ServiceSource> source, const ServiceLimits& limits);
    ~Service();
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    // The Error says why the port cannot be listened on now; it is tried again every few seconds
    // all the same. `port` 0 is any free one.
    Status start(int port, const std::string& munge_socket, std::uint32_t slurm_uid,
                 const std::string& cluster);
    void stop();
    int port() const noexcept;  // listened on, 0: none

  private:
    class State;
    std::shared_ptr<ServiceSource> source_;
    ServiceLimits limits_;
    std::shared_ptr<State> state_;
};

}  // namespace tranche
