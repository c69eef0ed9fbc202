// SPDX-License-Identifier: GPL-2.0-or-later
// The service's source where it runs for real: the engine of this slurmctld.
#include "engine/service.hpp"

namespace tranche {
namespace {

class EngineSource : public ServiceSource {
  public:
    explicit EngineSource(Engine& engine) : engine_(engine) {}

    std::shared_ptr<const EngineView> view() const override { return engine_.view(); }
    Result<EditOutcome> edit(const Actor& actor, const BudgetEdit& edit, bool only_try) override {
        return engine_.edit(actor, edit, only_try);
    }
    Result<std::vector<EditRecord>> edits(std::size_t most) override { return engine_.edits(most); }
    Result<ContractOutcome> change_contract(const Actor& actor,
                                            ContractQuestion question) override {
        return engine_.change_contract(actor, std::move(question));
    }
    Result<std::vector<ContractEditRow>> contract_edits(std::size_t most) override {
        return engine_.contract_edits(most);
    }
    Result<std::vector<PreemptionRecord>> preemptions(std::int64_t from, std::int64_t to,
                                                      std::size_t most) override {
        return engine_.preemptions(from, to, most);
    }
    Result<JobHistory> history(std::uint32_t id, std::int64_t part, bool is_component,
                               std::size_t most) override {
        return engine_.history(id, part, is_component, most);
    }
    // Without a host nobody has rights and everything is private.
    bool is_operator(std::uint32_t uid) override {
        Host* host = engine_.host();
        return host != nullptr && host->is_operator(uid);
    }
    std::string user_name(std::uint32_t uid) override {
        Host* host = engine_.host();
        return host == nullptr ? std::string() : host->user_name(uid);
    }
    bool is_private(std::string_view word) override {
        Host* host = engine_.host();
        return host == nullptr || host->is_private(word);
    }
    std::int64_t now() override {
        Host* host = engine_.host();
        return host == nullptr ? 0 : host->now();
    }
    void log(Host::LogLevel level, std::string_view text) override {
        if (Host* host = engine_.host(); host != nullptr) {
            host->log(level, text);
        }
    }
    void fault(const char* where, const char* what) override { engine_.fault(where, what); }

  private:
    Engine& engine_;
};

}  // namespace

Service::Service(Engine& engine) : Service(std::make_unique<EngineSource>(engine), {}) {}

}  // namespace tranche
