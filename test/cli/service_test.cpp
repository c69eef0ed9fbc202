// SPDX-License-Identifier: GPL-2.0-or-later
// The query service over loopback, with a munged of its own and an engine that is a table.
#include "engine/service.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "common/model/usage_ledger.hpp"
#include "common/wire/credential.hpp"
#include "common/wire/envelope.hpp"
#include "engine/answers.hpp"
#include "engine/real_clock.hpp"
#include "sim/snapshot_file.hpp"
#include "support/private_munge.hpp"
#include "tools/service_client.hpp"

namespace tranche {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;

std::shared_ptr<EngineView> example_view() {
    auto view = std::make_shared<EngineView>();
    const auto settings = std::make_shared<Settings>();
    view->settings = settings;
    view->at = kNow;
    view->cluster = "lab";
    Budget a, b;
    a.name = "projA";
    a.shares = 3;
    a.managers = {"alice"};
    b.name = "projB";
    view->tree = std::make_shared<BudgetTree>(BudgetTree::build({a, b}).value());
    UsageLedger::Rules rules;
    rules.window = settings->window();
    UsageLedger ledger(rules);
    ledger.set_tree(kNow - 10000, *view->tree);
    Segment past;
    past.key = {9, kNow - 7200, kNow - 7200};
    past.budget = "projB";
    past.user = "zoe";
    past.kind = RunKind::allocated;
    past.weight_milli = 80000;
    ledger.begin(past);
    view->view.now = kNow;
    view->view.node_sets.push_back({true});
    Node node;
    node.name = "n1";
    node.gpus = 8;
    node.cpus = 8;
    view->view.nodes.push_back(node);
    const auto add_card = [&](JobId id, const char* user, std::uint32_t uid, const char* budget,
                              bool running) {
        JobCard card;
        card.id = id;
        card.user = user;
        card.uid = uid;
        card.budget = budget;
        card.account = "acc";
        card.partition = "main";
        (running ? card.run_index : card.pending_index) =
            static_cast<std::int64_t>(running ? view->view.runs.size() : view->view.pending.size());
        view->card_by_id[id] = view->cards.size();
        view->cards.push_back(card);
    };
    const auto add_pending = [&](JobId id, const char* user, std::uint32_t uid,
                                 const char* budget) {
        add_card(id, user, uid, budget, false);
        PendingJob job;
        job.id = id;
        job.budget = ledger.budget_id(budget);
        job.member = ledger.member_id(job.budget, user);
        job.shape.gpus = 8;
        job.weight_milli = 8000;
        job.min_runtime_seconds = 3600;
        job.first_submit_at = kNow - 100 + id;
        view->view.pending.push_back(job);
    };
    add_pending(1, "root", 0, "projA");
    add_pending(2, "nobody", 65534, "projB");
    add_card(9, "zoe", 4242, "projB", true);
    Run run;
    run.id = 9;
    run.budget = ledger.budget_id("projB");
    run.member = ledger.member_id(run.budget, "zoe");
    run.kind = RunKind::allocated;
    run.where = {{0, 8, 8, 0}};
    run.gpus = 8;
    run.weight_milli = 8000;
    run.started_at = kNow - 7200;
    run.protected_until = kNow - 3600;
    view->view.runs.push_back(run);
    view->standings = ledger.standings(kNow);
    view->available_weight_milli = 8000;
    view->funded_milli_seconds.assign(view->standings.sides.size(), 0);
    view->ranking = rank_queue(view->view, view->standings, *settings);
    view->pass.verdicts.resize(view->view.pending.size());
    PreemptionRecord record;
    record.id = 1;
    record.victim = 2;
    record.claimant = 9;
    record.victim_user = "nobody";
    record.claimant_user = "zoe";
    record.planned_at = kNow - 60;
    view->recent_preemptions.push_back(record);
    return view;
}

// The engine as a table; counts nothing, answers what it is set to.
class TableSource : public ServiceSource {
  public:
    std::shared_ptr<const EngineView> view() const override {
        const std::lock_guard lock(mutex_);
        return view_;
    }
    Result<EditOutcome> edit(const Actor& actor, const BudgetEdit& edit, bool only_try) override {
        std::unique_lock lock(mutex_);
        ++blocked_;
        changed_.wait(lock, [this] { return !block_edits_; });
        --blocked_;
        auto after = apply_edit(*tree_, edit);
        if (!after.ok()) {
            return after.failure();
        }
        if (const Status status = check_rights(*tree_, *after, actor); !status.ok()) {
            return status.failure();
        }
        EditOutcome outcome;
        outcome.changes = tree_changes(*tree_, *after);
        if (!only_try) {
            tree_ = std::make_shared<BudgetTree>(std::move(after).value());
            outcome.applied = true;
        }
        return outcome;
    }
    Result<std::vector<EditRecord>> edits(std::size_t) override {
        return std::vector<EditRecord>{{kNow, "root", {"projA", "shares", "1", "3"}, "first plan"}};
    }
    // One job, 12, of the asking user.
    Result<ContractOutcome> change_contract(const Actor& actor,
                                            ContractQuestion question) override {
        if (question.job.id != 12) {
            return Error{"job " + to_text(question.job) + " is not known"};
        }
        ContractOutcome outcome;
        outcome.job = to_text(question.job);
        outcome.applied = !question.only_try;
        if (question.checkpointed) {
            outcome.notes = {"said by " + actor.user};
            return outcome;
        }
        const auto after = edited_terms(terms_, question.edit, {}, Settings{});
        if (!after.ok()) {
            return Error{"job 12: " + after.error()};
        }
        outcome.changes = contract_changes(terms_, *after);
        if (!question.only_try) {
            terms_ = *after;
        }
        return outcome;
    }
    Result<std::vector<ContractEditRow>> contract_edits(std::size_t) override {
        return std::vector<ContractEditRow>{
            {1,
             kNow,
             "root",
             12,
             "12",
             "nobody",
             "asked by mail",
             {{"min-runtime", "01:00:00", "02:00:00"}}},
            {2, kNow, "zoe", 13, "13", "zoe", "", {{"resumable", "no", "yes"}}}};
    }
    Result<std::vector<PreemptionRecord>> preemptions(std::int64_t, std::int64_t,
                                                      std::size_t) override {
        return view_->recent_preemptions;
    }
    Result<JobHistory> history(std::uint32_t, std::int64_t, bool, std::size_t) override {
        return JobHistory();
    }
    bool is_operator(std::uint32_t) override { return false; }
    std::string user_name(std::uint32_t uid) override {
        return uid == 0 ? "root" : uid == 65534 ? "nobody" : "";
    }
    bool is_private(std::string_view word) override {
        const std::lock_guard lock(mutex_);
        return private_.find(word) != std::string::npos;
    }
    std::int64_t now() override { return time(nullptr); }
    void log(Host::LogLevel, std::string_view) override {}
    void fault(const char*, const char* what) override { ADD_FAILURE() << what; }

    void set_private(const std::string& words) {
        const std::lock_guard lock(mutex_);
        private_ = words;
    }
    void block_edits(bool block) {
        {
            const std::lock_guard lock(mutex_);
            block_edits_ = block;
        }
        changed_.notify_all();
    }
    int blocked() const {
        const std::lock_guard lock(mutex_);
        return blocked_;
    }
    std::uint32_t shares_of(const std::string& name) const {
        const std::lock_guard lock(mutex_);
        const Budget* budget = tree_->find(name);
        return budget == nullptr ? 0 : budget->shares;
    }

  private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::shared_ptr<EngineView> view_ = example_view();
    std::shared_ptr<const BudgetTree> tree_ = view_->tree;
    std::string private_;
    ContractTerms terms_;
    bool block_edits_ = false;
    int blocked_ = 0;
};

class ServiceTest : public testing::Test {
  protected:
    static void SetUpTestSuite() { munge_ = new PrivateMunge(); }
    static void TearDownTestSuite() {
        delete munge_;
        munge_ = nullptr;
    }

    void SetUp() override {
        if (!munge_->ready()) {
            GTEST_SKIP() << "munged is not installed";
        }
        start({});
    }

    void start(const ServiceLimits& limits) {
        auto source = std::make_unique<TableSource>();
        source_ = source.get();
        service_ = std::make_unique<Service>(std::move(source), limits);
        const Status status = service_->start(0, munge_->socket(), geteuid(), "lab");
        ASSERT_TRUE(status.ok()) << status.error();
        ASSERT_GT(service_->port(), 0);
    }

    ServiceAddress address() const {
        return {"lab", {"127.0.0.1"}, service_->port(), munge_->socket(), slurm_uid_};
    }

    Result<Json> ask(const std::string& method, const Json& arguments = Json::object()) const {
        return ask_service(address(), method, arguments, {3000, 10000});
    }

    // The same as another user; the text of the result, or "error: …".
    std::string ask_as(uid_t uid, const std::string& method,
                       const Json& arguments = Json::object()) const {
        int pipes[2];
        EXPECT_EQ(pipe(pipes), 0);
        const pid_t child = fork();
        if (child == 0) {
            close(pipes[0]);
            std::string text = "error: setuid";
            if (setgid(65534) == 0 && setuid(uid) == 0) {
                const auto result = ask(method, arguments);
                text = result.ok() ? result->compact() : "error: " + result.error();
            }
            for (std::size_t at = 0; at < text.size();) {
                const ssize_t written = write(pipes[1], text.data() + at, text.size() - at);
                if (written <= 0) {
                    break;
                }
                at += static_cast<std::size_t>(written);
            }
            _exit(0);
        }
        close(pipes[1]);
        std::string text;
        char buffer[4096];
        for (ssize_t got; (got = read(pipes[0], buffer, sizeof buffer)) > 0;) {
            text.append(buffer, static_cast<std::size_t>(got));
        }
        close(pipes[0]);
        waitpid(child, nullptr, 0);
        return text;
    }

    int raw_connection() const {
        const int number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(static_cast<std::uint16_t>(service_->port()));
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(connect(number, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
        const timeval patience{10, 0};
        setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        return number;
    }
    static void send_bytes(int number, std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t sent = send(number, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent <= 0) {
                return;
            }
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
    }
    static std::string read_all(int number) {
        std::string text;
        char buffer[4096];
        for (ssize_t got; (got = recv(number, buffer, sizeof buffer, 0)) > 0;) {
            text.append(buffer, static_cast<std::size_t>(got));
        }
        close(number);
        return text;
    }
    // What the service says to bytes that are no good request.
    std::string answer_to(std::string_view bytes) const {
        const int number = raw_connection();
        send_bytes(number, bytes);
        return read_all(number);
    }
    std::string sealed(const std::string& text) const {
        Munge munge(munge_->socket());
        const auto credential = munge.encode(text, geteuid());
        EXPECT_TRUE(credential.ok());
        return credential.ok() ? *credential : "";
    }

    static PrivateMunge* munge_;
    const std::uint32_t slurm_uid_ = geteuid();  // before a child becomes somebody else
    TableSource* source_ = nullptr;
    std::unique_ptr<Service> service_;
};

PrivateMunge* ServiceTest::munge_ = nullptr;

const std::string kNonce = "00112233445566778899aabbccddeeff";

TEST_F(ServiceTest, contracts_are_changed_tried_and_listed) {
    const Json words = Json::object().set("min_runtime", "2h");
    const Json wrong = Json::object().set("min_runtime", "9h");
    const auto tried =
        ask("contract", Json::object().set("job_id", 12).set("set", words).set("try", true));
    ASSERT_TRUE(tried.ok()) << tried.error();
    EXPECT_FALSE(tried->at("applied").as_boolean());
    EXPECT_EQ(tried->at("changes").at(std::size_t{0}).at("after").as_text(), "02:00:00");
    const auto done = ask("contract", Json::object().set("job_id", 12).set("set", words));
    ASSERT_TRUE(done.ok()) << done.error();
    EXPECT_TRUE(done->at("applied").as_boolean());
    const auto refused = ask("contract", Json::object().set("job_id", 12).set("set", wrong));
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().find("job 12: min-runtime='9h'"), std::string::npos);
    EXPECT_FALSE(ask("contract", Json::object().set("job_id", 12)).ok());
    EXPECT_FALSE(ask("contract", Json::object().set("job_id", 12).set("set", Json::object())).ok());
    EXPECT_FALSE(ask("contract",
                     Json::object().set("job_id", 12).set("set", Json::object().set("budget", "a")))
                     .ok());
    EXPECT_TRUE(ask("checkpointed", Json::object().set("job_id", 12)).ok());
    EXPECT_FALSE(ask("checkpointed", Json::object().set("job_id", 12).set("set", words)).ok());
    EXPECT_EQ(ask("contract_edits", Json::object())->at("contract_edits").size(), 2u);
}

TEST_F(ServiceTest, every_method_answers_with_a_version) {
    for (const char* method :
         {"tree", "dump", "queue", "running", "health", "edits", "preemptions"}) {
        const auto result = ask(method);
        ASSERT_TRUE(result.ok()) << method << ": " << result.error();
        EXPECT_EQ(result->at("version").as_integer(), 1) << method;
    }
    const auto queue = ask("queue");
    ASSERT_TRUE(queue.ok());
    ASSERT_EQ(queue->at("jobs").size(), 2u);
    EXPECT_EQ(queue->at("jobs").at(std::size_t{0}).at("rank").as_integer(), 1);
    const auto narrowed = ask("queue", Json::object().set("users", Json::texts({"nobody"})));
    ASSERT_TRUE(narrowed.ok());
    EXPECT_EQ(narrowed->at("jobs").size(), 1u);
    const auto budget = ask("budget", Json::object().set("name", "projA"));
    ASSERT_TRUE(budget.ok()) << budget.error();
    EXPECT_EQ(budget->at("budget").at("shares").as_integer(), 3);
    const auto pending = ask("why", Json::object().set("job_id", 1));
    ASSERT_TRUE(pending.ok()) << pending.error();
    EXPECT_EQ(pending->at("state").as_text(), "pending");
    EXPECT_EQ(pending->at("pending").at("could_take").size(), 1u);
    const auto running = ask("why", Json::object().set("job_id", 9));
    ASSERT_TRUE(running.ok()) << running.error();
    EXPECT_EQ(running->at("state").as_text(), "running");
    EXPECT_GE(running->at("running").at("takers").size(), 1u);
}

TEST(Answers, a_task_or_component_is_found_by_its_own_name_only) {
    const auto view = example_view();
    view->cards[0].array_job_id = 1;
    view->cards[0].array_tasks = "3-500";
    view->cards[1].het_job_id = 8;
    view->cards[1].het_offset = 1;
    view->cards[2].array_job_id = 1;
    view->cards[2].array_task = 2;
    const Viewer viewer{0, "root", true};
    const auto listed = [&](auto answer, const char* names) {
        const auto filter =
            filter_from_json(Json::object().set("jobs", parse_json(names, "names").value()));
        EXPECT_TRUE(filter.ok()) << names;
        return answer(*view, viewer, filter.ok() ? *filter : JobFilter{}).at("jobs").size();
    };
    EXPECT_EQ(listed(answer_running, R"(["1_2"])"), 1u);
    EXPECT_EQ(listed(answer_queue, R"(["1_2"])"), 0u);
    EXPECT_EQ(listed(answer_queue, R"(["1_3"])"), 1u);
    EXPECT_EQ(listed(answer_queue, R"(["1_501"])"), 0u);
    EXPECT_EQ(listed(answer_queue, "[1,8]"), 2u);
    EXPECT_EQ(listed(answer_queue, R"(["8+1"])"), 1u);
    EXPECT_EQ(listed(answer_queue, R"(["8+0"])"), 0u);
    EXPECT_FALSE(filter_from_json(Json::object().set("jobs", Json::texts({"1_x"}))).ok());
    const auto state = [&](const JobName& name) {
        const auto answer = answer_why(*view, viewer, name, {});
        return answer.ok() ? answer->at("state").as_text() : answer.error();
    };
    EXPECT_EQ(state({1, 2, -1}), "running");
    EXPECT_EQ(state({1, 4, -1}), "pending");
    EXPECT_EQ(state({8, -1, 1}), "pending");
    EXPECT_NE(state({1, 99999, -1}).find("job 1_99999 is not known"), std::string::npos);
    EXPECT_NE(state({8, -1, 2}).find("job 8+2 is not known"), std::string::npos);
}

TEST_F(ServiceTest, bad_questions_get_one_clear_error) {
    EXPECT_NE(ask("destroy").error().find("unknown method 'destroy'"), std::string::npos);
    EXPECT_NE(ask("tree", Json::object().set("x", 1)).error().find("unknown key 'x'"),
              std::string::npos);
    EXPECT_NE(ask("budget").error().find("name is missing"), std::string::npos);
    EXPECT_NE(ask("budget", Json::object().set("name", "nope")).error().find("does not exist"),
              std::string::npos);
    EXPECT_NE(ask("why", Json::object().set("job_id", -1)).error().find("job_id is -1"),
              std::string::npos);
    EXPECT_NE(ask("why", Json::object().set("job_id", 77)).error().find("job 77 is not known"),
              std::string::npos);
    EXPECT_NE(ask("queue", Json::object().set("jobs", Json::texts({"x"}))).error().find("jobs"),
              std::string::npos);
    ServiceAddress other = address();
    other.cluster = "elsewhere";
    EXPECT_NE(ask_service(other, "tree", Json::object()).error().find("this is 'lab'"),
              std::string::npos);
    other = address();
    other.port = 1;
    EXPECT_NE(ask_service(other, "tree", Json::object()).error().find("no controller of cluster"),
              std::string::npos);
}

TEST_F(ServiceTest, what_is_no_credential_is_refused_and_the_service_lives) {
    EXPECT_NE(answer_to(framed("hello")).find("munge refuses"), std::string::npos);
    EXPECT_NE(answer_to(framed("MUNGE:AwQFAAAA:")).find("munge refuses"), std::string::npos);
    EXPECT_NE(answer_to(framed(std::string("MUNGE:\0:", 8))).find("not a munge credential"),
              std::string::npos);
    EXPECT_NE(answer_to("GET / HTTP/1.1\r\n\r\n").find("bytes; 1 to"), std::string::npos);
    EXPECT_NE(answer_to("\xff\xff\xff\xff").find("1 to 1048576 would be right"), std::string::npos);
    EXPECT_NE(answer_to(std::string(4, '\0')).find("would be right"), std::string::npos);
    EXPECT_NE(answer_to(framed("x") + "y").find("bytes follow"), std::string::npos);
    std::string tampered = sealed("{}");
    tampered[20] = tampered[20] == 'A' ? 'B' : 'A';
    EXPECT_NE(answer_to(framed(tampered)).find("tranche-refused"), std::string::npos);
    EXPECT_TRUE(ask("tree").ok());
}

TEST_F(ServiceTest, a_credential_that_holds_no_good_request_is_refused) {
    EXPECT_NE(answer_to(framed(sealed("not json"))).find("is not JSON"), std::string::npos);
    EXPECT_NE(answer_to(framed(sealed(""))).find("is not JSON"), std::string::npos);
    EXPECT_NE(answer_to(framed(sealed("[1,2]"))).find("request is a list"), std::string::npos);
    EXPECT_NE(answer_to(framed(sealed(std::string(5000, '[')))).find("deeper than"),
              std::string::npos);
    EXPECT_NE(answer_to(framed(sealed(R"({"version":1,"method":"tree"})"))).find("is missing"),
              std::string::npos);
    EXPECT_TRUE(ask("tree").ok());
}

TEST_F(ServiceTest, too_long_and_truncated_requests_do_no_harm) {
    const std::string header("\x00\x20\x00\x00", 4);  // two mebibytes announced
    EXPECT_NE(answer_to(header + std::string(100000, 'x')).find("1 to 1048576"), std::string::npos);
    const std::string whole = framed(sealed("{}"));
    for (const std::size_t length : {std::size_t{0}, std::size_t{3}, whole.size() - 1}) {
        const int number = raw_connection();
        send_bytes(number, std::string_view(whole).substr(0, length));
        shutdown(number, SHUT_WR);
        EXPECT_EQ(read_all(number), "") << length;
    }
    EXPECT_TRUE(ask("tree").ok());
}

TEST_F(ServiceTest, a_replayed_request_is_refused) {
    const std::string text = request_text(
        {"lab", kNonce, "edit",
         Json::object().set(
             "edit", Json::object().set("kind", "modify").set("name", "projB").set("shares", 7))});
    const std::string credential = sealed(text);
    EXPECT_EQ(answer_to(framed(credential)).find("tranche-refused"), std::string::npos);
    EXPECT_EQ(source_->shares_of("projB"), 7u);
    EXPECT_NE(answer_to(framed(credential)).find("Replayed"), std::string::npos);
    // The same words in a new credential: the nonce was used.
    Munge munge(munge_->socket());
    std::string reply = answer_to(framed(sealed(text)));
    ASSERT_GT(reply.size(), 4u);
    const auto opened = munge.decode(reply.substr(4));
    ASSERT_TRUE(opened.ok()) << opened.error();
    EXPECT_NE(opened->payload.find("answered before"), std::string::npos);
}

TEST_F(ServiceTest, an_edit_from_before_this_controller_is_not_carried_out) {
    const std::string credential = sealed(request_text(
        {"lab", "ff112233445566778899aabbccddeeff", "edit",
         Json::object().set(
             "edit", Json::object().set("kind", "modify").set("name", "projB").set("shares", 9))}));
    // A service that starts later, as a backup controller's would.
    service_.reset();
    const std::int64_t second = time(nullptr);
    while (time(nullptr) <= second) {
        usleep(20000);
    }
    start({});
    const std::string reply = answer_to(framed(credential));
    Munge munge(munge_->socket());
    ASSERT_GT(reply.size(), 4u);
    const auto opened = munge.decode(reply.substr(4));
    ASSERT_TRUE(opened.ok()) << opened.error();
    EXPECT_NE(opened->payload.find("before this controller took over"), std::string::npos);
    EXPECT_EQ(source_->shares_of("projB"), 1u);
}

TEST_F(ServiceTest, slow_and_silent_clients_block_nobody) {
    service_.reset();
    ServiceLimits limits;
    limits.request_milliseconds = 400;
    limits.clients = 8;
    start(limits);
    std::vector<int> silent;
    for (int i = 0; i < 30; ++i) {
        silent.push_back(raw_connection());
        send_bytes(silent.back(), std::string("\0\0\1", 3));
    }
    const auto begun = real_milliseconds();
    EXPECT_TRUE(ask("tree").ok());
    EXPECT_LT(real_milliseconds() - begun, 5000);
    for (const int number : silent) {
        EXPECT_EQ(read_all(number), "");  // hung up by the service, not by the time-out here
    }
    EXPECT_LT(real_milliseconds() - begun, 9000);
}

TEST_F(ServiceTest, one_user_cannot_take_all_places) {
    service_.reset();
    ServiceLimits limits;
    limits.clients_per_user = 2;
    limits.workers = 4;
    start(limits);
    source_->block_edits(true);
    std::vector<std::thread> blocked;
    std::atomic<int> done{0};
    const Json edit = Json::object().set(
        "edit", Json::object().set("kind", "modify").set("name", "projA").set("shares", 5));
    for (int i = 0; i < 2; ++i) {
        blocked.emplace_back([&] {
            EXPECT_TRUE(ask("edit", edit).ok());
            ++done;
        });
    }
    for (int i = 0; i < 500 && source_->blocked() < 2; ++i) {
        usleep(10000);
    }
    ASSERT_EQ(source_->blocked(), 2);
    const auto refused = ask("health");
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().find("at most 2 at once"), std::string::npos) << refused.error();
    EXPECT_EQ(done, 0);
    source_->block_edits(false);
    for (std::thread& thread : blocked) {
        thread.join();
    }
    for (int i = 0; i < 200 && !ask("health").ok(); ++i) {
        usleep(10000);
    }
    EXPECT_TRUE(ask("health").ok());
}

TEST_F(ServiceTest, edits_are_tried_applied_and_refused) {
    const Json edit = Json::object().set("kind", "modify").set("name", "projA").set("shares", 40);
    const auto tried = ask("edit", Json::object().set("edit", edit).set("try", true));
    ASSERT_TRUE(tried.ok()) << tried.error();
    EXPECT_FALSE(tried->at("applied").as_boolean());
    EXPECT_EQ(tried->at("changes").at(std::size_t{0}).at("after").as_text(), "40");
    EXPECT_EQ(source_->shares_of("projA"), 3u);
    const auto applied = ask("edit", Json::object().set("edit", edit));
    ASSERT_TRUE(applied.ok()) << applied.error();
    EXPECT_TRUE(applied->at("applied").as_boolean());
    EXPECT_EQ(source_->shares_of("projA"), 40u);
    const auto refused =
        ask("edit",
            Json::object().set(
                "edit",
                Json::object().set("kind", "modify").set("name", "projA").set("shares", 65536)));
    EXPECT_NE(refused.error().find("65536 is too large"), std::string::npos);
    EXPECT_EQ(source_->shares_of("projA"), 40u);
}

TEST_F(ServiceTest, other_users_see_and_change_only_what_they_may) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "asking as another user needs root";
    }
    const Json job_1 = Json::object().set("job_id", 1), job_2 = Json::object().set("job_id", 2);
    EXPECT_NE(ask_as(65534, "queue").find("\"user\":\"root\""), std::string::npos);
    EXPECT_NE(ask_as(65534, "tree").find("projA"), std::string::npos);
    const Json edit = Json::object().set(
        "edit", Json::object().set("kind", "modify").set("name", "projA").set("shares", 40));
    EXPECT_NE(ask_as(65534, "edit", edit).find("'nobody' may not change budget 'projA'"),
              std::string::npos);
    EXPECT_EQ(source_->shares_of("projA"), 3u);
    EXPECT_NE(ask_as(12345, "edit", edit).find("has no name"), std::string::npos);

    source_->set_private("jobs");
    const std::string queue = ask_as(65534, "queue");
    EXPECT_EQ(queue.find("\"user\":\"root\""), std::string::npos) << queue;
    EXPECT_NE(queue.find("\"user\":\"nobody\""), std::string::npos) << queue;
    EXPECT_NE(ask_as(65534, "why", job_1).find("job 1 is not known"), std::string::npos);
    const std::string own = ask_as(65534, "why", job_2);
    EXPECT_NE(own.find("\"state\":\"pending\""), std::string::npos) << own;
    EXPECT_EQ(own.find("zoe"), std::string::npos) << own;
    EXPECT_EQ(own.find("\"root\",\"jobs\""), std::string::npos) << own;
    EXPECT_EQ(ask_as(65534, "running").find("zoe"), std::string::npos);
    EXPECT_EQ(ask_as(65534, "preemptions").find("zoe"), std::string::npos);
    EXPECT_NE(ask("queue")->compact().find("nobody"), std::string::npos);  // root sees all

    source_->set_private("jobs,usage");
    const std::string tree = ask_as(65534, "tree");
    EXPECT_EQ(tree.find("projA"), std::string::npos) << tree;
    EXPECT_NE(tree.find("projB"), std::string::npos) << tree;
    EXPECT_EQ(ask_as(65534, "why", job_2).find("projA"), std::string::npos);
    EXPECT_EQ(ask_as(65534, "edits").find("projA"), std::string::npos);
    EXPECT_NE(ask_as(65534, "budget", Json::object().set("name", "projA")).find("does not exist"),
              std::string::npos);
    EXPECT_NE(ask_as(65534, "dump").find("error: PrivateData"), std::string::npos);
}

TEST_F(ServiceTest, an_answer_is_for_the_asking_user_and_from_slurmuser_only) {
    const std::string reply = answer_to(framed(
        sealed(request_text({"lab", "aa112233445566778899aabbccddeeff", "tree", Json::object()}))));
    ASSERT_GT(reply.size(), 4u);
    if (geteuid() == 0) {
        const pid_t child = fork();
        if (child == 0) {
            const bool changed = setgid(65534) == 0 && setuid(65534) == 0;
            Munge munge(munge_->socket());
            _exit(changed && !munge.decode(reply.substr(4)).ok() ? 0 : 1);
        }
        int status = 1;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
        // A service of somebody else's on that port is not believed.
        ServiceAddress doubtful = address();
        doubtful.slurm_uid = 65534;
        const auto result = ask_service(doubtful, "tree", Json::object());
        EXPECT_FALSE(result.ok());
    }
    Munge munge(munge_->socket());
    const auto opened = munge.decode(reply.substr(4));
    ASSERT_TRUE(opened.ok()) << opened.error();
    ReplyAssembly other("bb112233445566778899aabbccddeeff");
    EXPECT_FALSE(other.add(opened->payload).ok());
}

TEST_F(ServiceTest, it_starts_and_stops_again_and_again) {
    for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(ask("tree").ok()) << i;
        service_->stop();
        EXPECT_EQ(service_->port(), 0);
        ASSERT_TRUE(service_->start(0, munge_->socket(), geteuid(), "lab").ok());
    }
}

TEST_F(ServiceTest, a_port_in_use_is_said_and_taken_when_it_is_free) {
    Service second(std::make_unique<TableSource>(), ServiceLimits{});
    const int taken = service_->port();
    const Status status = second.start(taken, munge_->socket(), geteuid(), "lab");
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().find("ServicePort " + std::to_string(taken)), std::string::npos);
    service_->stop();
    for (int i = 0; i < 800 && second.port() == 0; ++i) {
        usleep(10000);
    }
    EXPECT_EQ(second.port(), taken);
}

TEST_F(ServiceTest, a_munged_that_hangs_does_not_keep_the_service_from_stopping) {
    PrivateMunge hanging;
    ASSERT_TRUE(hanging.ready());
    Munge munge(hanging.socket());
    const auto credential = munge.encode("{}", std::nullopt);
    ASSERT_TRUE(credential.ok());
    service_->stop();
    ASSERT_TRUE(service_->start(0, hanging.socket(), geteuid(), "lab").ok());
    kill(hanging.pid(), SIGSTOP);
    std::vector<int> waiting;
    for (int i = 0; i < 6; ++i) {
        waiting.push_back(raw_connection());
        send_bytes(waiting.back(), framed(*credential));
    }
    usleep(100000);
    const auto begun = real_milliseconds();
    service_->stop();
    EXPECT_LT(real_milliseconds() - begun, 8000);
    kill(hanging.pid(), SIGCONT);
    for (const int number : waiting) {
        close(number);
    }
    usleep(200000);  // for the workers left behind to end before their munged does
}

TEST(SnapshotAnswer, the_simulator_reads_what_the_controller_answers) {
    const auto view = example_view();
    Viewer viewer;
    viewer.is_operator = true;
    const auto answer = answer_snapshot(*view, viewer);
    ASSERT_TRUE(answer.ok()) << answer.error();
    const auto snapshot = sim::read_snapshot(answer->pretty(), "f");
    ASSERT_TRUE(snapshot.ok()) << snapshot.error();
    EXPECT_EQ(snapshot->at, kNow);
    EXPECT_EQ(snapshot->settings, *view->settings);
    EXPECT_TRUE(snapshot->tree == *view->tree);
    EXPECT_EQ(snapshot->cluster.gpus(), 8);
    ASSERT_EQ(snapshot->jobs.jobs.size(), 3U);
    ASSERT_EQ(snapshot->runs.size(), 1U);
    EXPECT_EQ(snapshot->runs[0].job, "9");
    EXPECT_EQ(snapshot->runs[0].elapsed_seconds, 7200);
    EXPECT_EQ(snapshot->runs[0].contract_seconds, 0);
    EXPECT_EQ(snapshot->runs[0].kind, RunKind::allocated);
    // 80 GPUs for two hours, an hour old in the mean.
    std::int64_t seconds = 0, moment = 0;
    for (const sim::PastUse& use : snapshot->past) {
        EXPECT_EQ(use.budget, "projB");
        EXPECT_EQ(use.user, "zoe");
        seconds += use.gpus * (use.to - use.from);
        moment += use.gpus * (use.to - use.from) * (2 * kNow - use.from - use.to) / 2;
    }
    EXPECT_EQ(seconds, 80 * 7200);
    EXPECT_NEAR(static_cast<double>(moment) / static_cast<double>(seconds), 3600, 1);
}

TEST(SnapshotAnswer, who_may_not_see_all_gets_none) {
    const auto view = example_view();
    Viewer viewer;
    viewer.uid = 4242;
    viewer.user = "zoe";
    EXPECT_TRUE(answer_snapshot(*view, viewer).ok());
    viewer.jobs_private = true;
    EXPECT_NE(answer_snapshot(*view, viewer).error().find("PrivateData"), std::string::npos);
    viewer.jobs_private = false;
    viewer.usage_private = true;
    EXPECT_FALSE(answer_snapshot(*view, viewer).ok());
    viewer.is_operator = true;
    EXPECT_TRUE(answer_snapshot(*view, viewer).ok());
}

}  // namespace
}  // namespace tranche
