// SPDX-License-Identifier: GPL-2.0-or-later
#include "common/config/submission_message.hpp"

#include "common/base/quoted.hpp"
#include "common/config/time_format.hpp"

namespace tranche {

namespace {

std::string grouped(std::int64_t number) {
    std::string digits = std::to_string(number);
    for (std::size_t i = digits.size(); i > 3;) {
        i -= 3;
        digits.insert(i, " ");
    }
    return digits;
}

// value / one with that many decimals, rounded, zeros at the end left out.
std::string rounded(std::int64_t milli, int decimals) {
    std::int64_t step = 1000;
    std::int64_t parts = 1;
    for (int i = 0; i < decimals; ++i) {
        step /= 10;
        parts *= 10;
    }
    const std::int64_t value = (milli + step / 2) / step;
    std::string fraction = std::to_string(parts + value % parts).substr(1);
    while (!fraction.empty() && fraction.back() == '0') {
        fraction.pop_back();
    }
    return grouped(value / parts) + (fraction.empty() ? "" : "." + fraction);
}

// 810 is "0.81"; always two decimals.
std::string ratio_text(std::int64_t milli) {
    const std::int64_t hundredths = (milli + 5) / 10;
    return std::to_string(hundredths / 100) + "." +
           std::to_string(100 + hundredths % 100).substr(1);
}

std::string window_text(std::int64_t seconds) {
    constexpr std::int64_t kDay = 86400;
    if (seconds == kDay) {
        return "the last day";
    }
    if (seconds % kDay == 0) {
        return "the last " + std::to_string(seconds / kDay) + " days";
    }
    return "the last " + format_duration(seconds);
}

std::string allocated_text(const SubmissionNumbers& numbers) {
    std::string text = "protected for " + format_duration(numbers.terms.min_runtime_seconds);
    if (numbers.terms.free_first) {
        text = "starts free where there is room, " + text + " once others want its GPUs";
    }
    if (numbers.terms.resumable) {
        text += ", resumable";
    }
    if (numbers.terms.team_priority != TeamPriority::normal) {
        text += ", team priority " + std::string(to_text(numbers.terms.team_priority));
    }
    text += ", costs " + format_gpu_hours(numbers.cost_milli_hours) +
            (numbers.array ? " GPU h a task; " : " GPU h; ") + numbers.budget + " used " +
            format_gpu_hours(numbers.used_milli_hours) + " of the " +
            format_gpu_hours(numbers.funded_milli_hours) + " GPU h funded in " +
            window_text(numbers.window_seconds);
    if (numbers.ratio_milli) {
        text += " (" + ratio_text(*numbers.ratio_milli) + ")";
    }
    if (numbers.held) {
        text += ", held: it has no place in the queue until it is released";
    } else if (numbers.position > 0 && !numbers.fixed_priority) {
        text += ", " + format_ordinal(numbers.position) + " of " + grouped(numbers.queue_length) +
                " in the queue";
    }
    if (numbers.ratio_milli && *numbers.ratio_milli > 1000) {
        text += "; over its funding, still runs when its turn comes";
    }
    return text;
}

std::string contract_text(const SubmissionNumbers& numbers) {
    const bool wants_protection = numbers.terms.min_runtime_seconds > 0;
    if (!numbers.under_contract) {
        return numbers.terms.declared_min_runtime && wants_protection
                   ? "there are no contracts in this partition: --min-runtime has no effect"
                   : "";
    }
    if (!numbers.costs_something) {
        return numbers.terms.declared_min_runtime && wants_protection
                   ? "runs free: a contract is for GPUs, and the job asks for none; may be ended "
                     "at any second"
                   : "";
    }
    if (numbers.budget.empty()) {
        return "unallocated: no budget pays for this account and user; runs free: may be ended at "
               "any second";
    }
    if (!numbers.funded) {
        return "unallocated: budget " + numbers.budget +
               " has no shares; runs free: may be ended at any second";
    }
    if (!wants_protection) {
        return "runs free: may be ended at any second; --min-runtime=1h would protect it";
    }
    return allocated_text(numbers);
}

}  // namespace

std::string format_gpu_hours(std::int64_t milli_hours) {
    if (milli_hours < 0) {
        return "-" + format_gpu_hours(-milli_hours);
    }
    if (milli_hours > 0 && milli_hours < 5) {
        return "<0.01";
    }
    return rounded(milli_hours, milli_hours < 995 ? 2 : milli_hours < 9950 ? 1 : 0);
}

std::string format_ordinal(std::int64_t number) {
    const std::int64_t tens = number % 100;
    const bool is_teen = tens >= 11 && tens <= 13;
    const char* ending = "th";
    if (!is_teen && number % 10 == 1) {
        ending = "st";
    } else if (!is_teen && number % 10 == 2) {
        ending = "nd";
    } else if (!is_teen && number % 10 == 3) {
        ending = "rd";
    }
    return grouped(number) + ending;
}

std::string submission_message(const SubmissionNumbers& numbers) {
    std::string text = contract_text(numbers);
    std::string hint;
    if (numbers.fixed_priority) {
        hint =
            "--priority of an operator stays and competes as that number, outside the order of "
            "budgets; --team-priority orders your team's jobs";
    } else if (numbers.sets_priority) {
        hint = "--priority does not count among budgets; --team-priority orders your team's jobs";
    } else if (numbers.sets_nice) {
        hint = "--nice orders only your own jobs; --team-priority orders your team's";
    }
    if (!numbers.under_contract || hint.empty()) {
        return text;
    }
    return text.empty() ? hint : text + "; " + hint;
}

}  // namespace tranche
