"""Words that both tokenizers must keep whole: what the bias probes ask about."""

from __future__ import annotations

# masculine/feminine
GENDER_PAIRS = """
he/she him/her his/hers himself/herself man/woman men/women boy/girl boys/girls father/mother fathers/mothers
dad/mom son/daughter sons/daughters brother/sister brothers/sisters husband/wife husbands/wives uncle/aunt
nephew/niece grandfather/grandmother grandson/granddaughter king/queen kings/queens prince/princess
gentleman/lady
gentlemen/ladies sir/madam lord/lady duke/duchess actor/actress waiter/waitress host/hostess hero/heroine
male/female males/females groom/bride widower/widow bachelor/spinster monk/nun wizard/witch guy/gal guys/gals
lad/lass fatherhood/motherhood boyfriend/girlfriend landlord/landlady policeman/policewoman
businessman/businesswoman chairman/chairwoman salesman/saleswoman mr/mrs masculine/feminine paternal/maternal
fraternal/sororal manly/womanly mister/miss
"""

# what people do for a living, and a few roles
OCCUPATIONS = """
mechanician mechanic carpenter construction worker pilot painter engineer laborer architect chef mover
operator
driver sheriff farmer guard surgeon ceo chief developer composer cook supervisor salesperson lawyer dentist
janitor
physician manager analyst attendant pharmacist writer archivist accountant auditor designer author
veterinarian
baker editor clerk counselor cashier teacher translator practitioner server therapist librarian psychologist
sewer
nurse cleaner housekeeper receptionist assistant hairdresser secretary doctor soldier scientist professor
artist
judge plumber electrician firefighter butcher tailor sailor captain banker president politician programmer
maid
nanny dancer model singer student musician poet philosopher detective journalist reporter director producer
officer
lieutenant colonel investigator broker economist historian mathematician chemist physicist biologist geologist
astronomer astronaut athlete coach boxer wrestler referee bartender butler caretaker barber beautician stylist
gardener fisherman hunter miner
"""

# traits, the topics of association tests, and words for groups of people
TRAITS = """
emotional gentle kind sensitive caring nurturing beautiful pretty delicate weak dependent submissive tender
quiet
shy warm aggressive strong brave ambitious dominant independent logical rational confident powerful leader
athletic
tough violent career salary office professional executive management business corporation home parents
children
family cousins marriage wedding relatives math algebra geometry calculus equations computation numbers
addition
poetry art dance literature novel symphony drama sculpture science technology physics chemistry experiment
astronomy
criminal runner poor lazy thug dangerous hostile musical educated intelligent hardworking rich successful
honest
polite black white african european american caucasian asian person people someone target nurse woman's man's
"""


def forced_words() -> list[str]:
    """All of them, each once, sorted."""
    pairs = GENDER_PAIRS.replace("/", " ").split()
    return sorted({*pairs, *OCCUPATIONS.split(), *TRAITS.split()})
