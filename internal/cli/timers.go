package cli

// startedAgain is what coarseTimers adds to the environment of the process that it makes.
const startedAgain = "MOLDAU_STARTED_AGAIN=1"
