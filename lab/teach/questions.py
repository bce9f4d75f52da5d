"""Questions without an answer for the learner: three of a lesson, and an exit test of five minutes for each plan of a workshop.

They are not the lessons' predictions: each asks for an idea in a case that no lesson shows. `lab.TransferQuestions` and
`lab.ExitTest` ask them; `shows` is what `lab class report` tells an instructor.
"""

from typing import NamedTuple

WHEN, EXIT = ("before", "after", "later"), "exit"


class Question(NamedTuple):
    """A question with options; `right`: the number of the right one, `shows`: what the others do."""

    text: str
    options: tuple[str, ...]
    right: int
    shows: str


QUESTIONS: dict[str, tuple[Question, ...]] = {  # by lesson, or plan of a workshop
    "0": (
        Question(
            "A shop wants to know at once when a customer returns more than 5 items within 7 days. How often must this be checked?",
            ("once a day", "at each return", "when 7 days have passed"),
            1,
            shows="think of a report by the day, not of a verdict at each event",
        ),
        Question(
            "The shop changes the 5 to 3 while the program runs. What happens to the returns of the last days?",
            (
                "they count for the new limit",
                "they are forgotten, counting starts anew",
                "they count until the program restarts",
            ),
            0,
            shows="think that a rule owns its history: the events are kept, and the new limit judges them",
        ),
        Question(
            "Returns of one customer at minute 0, 4 and 10; the window is 10 minutes. How many returns has the window at minute 10?",
            ("1", "2", "3"),
            2,
            shows="leave out an end of the window: the event itself counts, and so does one exactly ten minutes before",
        ),
    ),
    "1": (
        Question(
            "A warehouse has 30 rules about parcels: 20 group them by customer, 10 by customer and carrier. How many copies of a parcel must be sent?",
            ("1", "2", "30"),
            1,
            shows="send a copy for each rule; rules with the same key share one",
        ),
        Question(
            "One machine of a factory sends half of all readings, which are grouped by machine. You double the number of workers. What happens to the fullest worker?",
            (
                "it has half as much to do",
                "it has a quarter of all readings",
                "it still has half of all readings, or more",
            ),
            2,
            shows="think that more workers split a key; all readings of a machine go to one worker",
        ),
        Question(
            "Tonight somebody adds a rule by a field that no rule has grouped by so far. What must a program with dynamic keys do?",
            (
                "send each event under the new key, too, from now on",
                "restart with a new query",
                "read all earlier events again",
            ),
            0,
            shows="take a key for a part of the program; it is data on each copy",
        ),
    ),
    "2": (
        Question(
            "A price list changes while orders come, and two tills hear of it at different times. How does each order get the price that held when it was placed?",
            (
                "each till asks for the newest price",
                "orders and prices are in one list, and their places decide",
                "each till waits a second before an order",
            ),
            1,
            shows="look for the newest value; what counts is the place in one log",
        ),
        Question(
            "A limit is deleted, and an hour later another with the same number 7 is added. A report says that 7 was exceeded. What must it say, too?",
            ("which version of 7", "nothing, there is only one 7", "who added it"),
            0,
            shows="think that a number names one rule for ever; each accepted change is a version",
        ),
        Question(
            "The same list of events and rules is processed in pieces of 10 and in pieces of 1,000. What may differ in the alerts?",
            ("which alerts there are", "the version of the rule in an alert", "only when they come"),
            2,
            shows="think that a rule sees the borders of pieces; only places in the log count",
        ),
    ),
    "3": (
        Question(
            "Calls are counted per full hour. A line gets 40 calls from 9:50 to 10:10, and few at other times. The limit is 30 calls within an hour. What does this count show?",
            ("always more than 30", "maybe no hour with more than 30", "exactly 40 in one hour"),
            1,
            shows="do not see that an edge at 10:00 cuts the forty calls in two",
        ),
        Question(
            "The widest window of all rules is 2 hours, and readings come up to 10 minutes late. How long must a reading be kept?",
            ("2 hours", "2 hours and 10 minutes", "4 hours"),
            1,
            shows="forget that a late event needs what lies one window before its own time",
        ),
        Question(
            "A reading of 9:00 arrives after one of 9:05. The window is 10 minutes and ends with the reading. Over which readings is the late one judged?",
            ("those from 8:50 to 9:00", "those from 8:55 to 9:05", "none, it is too late"),
            0,
            shows="take the order of arrival for the order of events",
        ),
    ),
    "4": (
        Question(
            "A bus counts the passengers of the last hour, and reports every 10 minutes. A crowd enters at some moment. How long until a report shows it, on average?",
            ("5 minutes", "10 minutes", "30 minutes"),
            0,
            shows="take the window, or a whole step, for the wait; on average it is half a step",
        ),
        Question(
            "A window is reported when events say that its end has passed. The line of the only sensor breaks before that. When is the last window reported?",
            ("at once", "when its time is over on the clock", "when an event comes again"),
            2,
            shows="take event time for a clock that goes on by itself; without events it stands still",
        ),
        Question(
            "A report over 24 hours is made of windows that begin every minute. In how many of these windows is each event?",
            ("1", "24", "1,440"),
            2,
            shows="forget that each event is in W / S windows, the price of a small slide",
        ),
    ),
    "5": (
        Question(
            "Files of customers lie in 128 numbered boxes, shared by 3 clerks. A fourth clerk comes. What do the clerks have to settle anew?",
            ("who has which boxes", "which customer is in which box", "how many boxes there are"),
            0,
            shows="move single keys; whole groups move, and a key stays in its group",
        ),
        Question(
            "A program keeps a counter for each customer, and for each file how far it has read. More workers share the work. What of it can be dealt out in any way?",
            ("the counters", "how far each file is read", "both"),
            1,
            shows="do not tell a list that anybody can take over from state that follows its key",
        ),
        Question(
            "There are 8 boxes, and a box is never divided. What do 12 clerks do?",
            ("each has a part of a box", "they make 12 boxes of the 8", "8 work, and 4 have nothing to do"),
            2,
            shows="think that groups can be added later; their number is the most tasks there can be",
        ),
    ),
    "6": (
        Question(
            "A program asks a database once for each of 10,000 orders. An answer takes 1 ms, and computing with it 1 \u00b5s. What makes the program ten times faster?",
            (
                "computing ten times faster",
                "one question for every 100 orders",
                "half as many orders in memory",
            ),
            1,
            shows="speed up the work, and not the round trips that take the time",
        ),
        Question(
            "A sum over the last hour adds what enters the window and takes away what leaves it. The window grows to a day. What happens to the cost of an event?",
            ("it stays the same", "it is 24 times as high", "it is twice as high"),
            0,
            shows="think of a loop over the window; each event enters once and leaves once",
        ),
        Question(
            "A program that takes 1,000 events at once handles twice as many per second. Few events come. What happens to the time from an event to its answer?",
            ("it is halved", "it stays the same", "it may grow, as an event waits for others"),
            2,
            shows="take throughput for latency",
        ),
    ),
    "7": (
        Question(
            "A program writes a result, and is killed before it notes that it has read the input. It starts again. What does its reader see?",
            ("nothing", "the result once", "the result twice, unless one of the two is recognised"),
            2,
            shows="think that a restart loses or repeats nothing by itself",
        ),
        Question(
            "Ten messages of one customer must stay in order on a topic with 8 partitions. What is needed?",
            ("a topic with one partition", "the customer as key", "the same time on all messages"),
            1,
            shows="do not see that a key fixes the partition, and only order within a partition is kept",
        ),
        Question(
            "A reader is one minute behind its topic, and stays one minute behind. How fast does it read?",
            ("as fast as messages come", "slower than they come", "it has stopped"),
            0,
            shows="take lag for slowness: a lag that stays is a reader that keeps up",
        ),
    ),
    "8": (
        Question(
            "A thief opens 50 accounts on one phone, and each account orders once. A rule counts orders. By which key does it see the thief?",
            ("by phone", "by account", "by amount"),
            0,
            shows="count by what suffered the loss; the key decides what a rule can see",
        ),
        Question(
            "A limit was chosen on the events of last year, and finds every fraud among them. What does that say about next year?",
            (
                "it will find every fraud",
                "little: it was chosen to fit these frauds",
                "it will raise no false alerts",
            ),
            1,
            shows="judge a limit by the events that it was chosen on",
        ),
        Question(
            "Each alert blocks an address for an hour. The attacker goes on from the same address, all night. What does the log show?",
            ("one alert", "an alert for each try", "about one alert per hour"),
            2,
            shows="think that a restriction ends an attack; it expires, and the attack is caught again",
        ),
    ),
    "9": (
        Question(
            "A program is wrong only if two equal numbers come. 1,000 random lists of 3 numbers up to a million find no mistake. Which lists should be tried next?",
            ("a million of the same kind", "lists of numbers up to 3", "lists of larger numbers"),
            1,
            shows="try more of the same instead of making the rare case likely",
        ),
        Question(
            "A failing log of 200 lines is made as short as possible. What for?",
            (
                "a person sees the cause in it",
                "the test runs faster",
                "it proves that there is no other mistake",
            ),
            0,
            shows="take a shorter counterexample for more proof; it is for the reader",
        ),
        Question(
            "A program prints an invoice, then notes that it did. It dies between the two, and goes on from its notes. What keeps the customer from paying twice?",
            (
                "noting it before printing",
                "printing more slowly",
                "a number on each invoice, by which the second one is recognised",
            ),
            2,
            shows="swap the steps, which may lose the invoice; what goes out must be recognised",
        ),
    ),
    "10": (
        Question(
            "A kiosk sells 20 papers on a usual day, a station 2,000. One rule is to see unusual days of both. What does it compare a day with?",
            ("1,000 papers", "what is usual for the same shop", "the mean of all shops"),
            1,
            shows="look for one number for all; a limit may be an aggregate of the same group",
        ),
        Question(
            "A rule counts failed deliveries of a parcel, and is to alert when the parcel is handed over at last. What must its sentence say?",
            ("which events count, and which event may alert", "only which events count", "a larger limit"),
            0,
            shows="do not tell what is counted from what is judged",
        ),
        Question(
            "A rule alerts 50 times on each case. From now on it may alert once an hour for each customer. What changes?",
            ("it finds fewer cases", "it finds each case later", "the same cases, with fewer alerts"),
            2,
            shows="think that suppressed alerts lose cases; the first alert of each still comes",
        ),
    ),
    "11": (
        Question(
            "A clinic wants to know how well its alarm finds emergencies. Nurses write down, for each alarm, whether there was one. What can these notes tell?",
            (
                "how many emergencies the alarm misses",
                "how many of the alarms are right",
                "both",
            ),
            1,
            shows="take labels of alerts for labels of events: what raised no alert, nobody has looked at",
        ),
        Question(
            "A baker tries 50 recipes on the guests of one evening, and takes the one that they like best. What tells how good it is?",
            (
                "the opinion of other guests",
                "the opinion of these guests",
                "the mean of all 50 opinions",
            ),
            0,
            shows="judge a choice by what it was chosen on; held-out guests had no part in it",
        ),
        Question(
            "A gate counts the visitors of the last hour, and closes above 100. At 10:30 the number is lowered to 80; 90 came since 10:00. What happens at the next visitor?",
            (
                "it counts from 1, as the rule is new",
                "it closes from 11:00 on",
                "it closes",
            ),
            2,
            shows="think that a changed rule begins with an empty window; the events are kept, and the new limit judges them",
        ),
    ),
    "half-day": (
        Question(
            "A bank changes a rule at noon while the program runs. A payment comes a second later. What judges it?",
            ("the old rule, until a restart", "the new rule", "both rules"),
            1,
            shows="think of rules as code that is deployed: here a rule is data on the same log as the payments",
        ),
        Question(
            "Alert when a card pays in 3 shops within 10 minutes. It pays at 9:57, 10:01 and 10:04, in another shop each time. Which count sees it?",
            ("one for each full ten minutes", "one for the ten minutes before each payment", "both"),
            1,
            shows="do not see that a fixed window ends at 10:00, between the payments",
        ),
        Question(
            "The payment of 9:57 arrives last, at 10:05, and nothing is too late yet. What does a window for each payment do?",
            (
                "it judges the payment over the ten minutes before 9:57",
                "it judges the payment over the ten minutes before 10:05",
                "it drops the payment",
            ),
            0,
            shows="take the time of arrival for the time of the event",
        ),
        Question(
            "The engine is killed after it delivered alerts, and before it noted how far it had read. What must hold, so that nothing is lost or twice?",
            (
                "the killed batch runs again over the same events, and its alerts are known by its number",
                "the engine continues after the last event that it has read",
                "the alerts are delivered later, all at once",
            ),
            0,
            shows="do not connect a fixed cut with a delivery that can be recognised",
        ),
        Question(
            "A panel says: lag 0, and no alert for an hour. Which question finds out whether a rule is wrong?",
            (
                "is the engine fast enough?",
                "how many events come per second?",
                "why did this rule not alert at this event?",
            ),
            2,
            shows="look at the engine's health, not at the rule: without lag, all events were judged",
        ),
    ),
    "two-days": (
        Question(
            "40 rules of a shop use 5 different combinations of keys, all without filters. How often must an order be sent at least?",
            ("once", "5 times", "40 times"),
            1,
            shows="send a copy for each rule, not for each route: rules with the same keys share one",
        ),
        Question(
            "Two tasks learn of a new rule at different times, because each listens by itself. What is wrong with the alerts?",
            (
                "which events the rule judges depends on chance",
                "nothing, they come later",
                "the rule is counted twice",
            ),
            0,
            shows="do not see that a rule needs a place in the order of the events",
        ),
        Question(
            "Windows of 24 hours that begin every 5 minutes. A crossing event waits for its alert. What shortens the wait?",
            ("windows of 12 hours", "more tasks", "windows that begin every minute"),
            2,
            shows="think that the length of the window makes the wait, and not the slide",
        ),
        Question(
            "State lies in 64 groups. 4 tasks become 6. What does each new task read?",
            ("all of the state", "a sixth of each group", "the groups that are its own now"),
            2,
            shows="think of single keys that are dealt out anew, not of groups that move whole",
        ),
        Question(
            "A rule alerts on 90 of 100 frauds, and on 900 honest customers. Its limit is raised. What happens?",
            (
                "fewer false alerts, and perhaps fewer frauds found",
                "fewer false alerts, and as many frauds found",
                "more of both",
            ),
            0,
            shows="hope for a limit without a price: precision and recall pull against each other",
        ),
        Question(
            "A reader prints a sum after each message. It is killed, and starts again from its last saved place. When are its sums right again?",
            (
                "at once, a sum needs no past",
                "if the place was saved after each message",
                "if the sum was saved together with the place",
            ),
            2,
            shows="save the place and forget the state that belongs to it",
        ),
    ),
}


def times_of(name: str) -> tuple[str, ...]:
    """When questions are asked: those of a lesson three times, those of a plan at its end.

    >>> times_of("3"), times_of("half-day")
    (('before', 'after', 'later'), ('exit',))
    """
    return WHEN if name.isdigit() else (EXIT,)


def names_of_lessons() -> list[str]:
    """The lessons that have questions."""
    return [name for name in QUESTIONS if name.isdigit()]


def names_of_plans() -> list[str]:
    """The plans of a workshop."""
    return [name for name in QUESTIONS if not name.isdigit()]
